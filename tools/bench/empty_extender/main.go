// An extender that knows nothing: every node fits and all are equal. What a scheduler loses to it is what the
// protocol costs, whoever is asked, so it does no more than must be done: of a call it reads no JSON, but finds the
// names by where they stand, and gives them back as they came.
//
// Usage: empty-extender -port 8080 -server https://127.0.0.1:6443 -ca ca.crt -token admin
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
)

var (
	namesKey  = []byte(`,"NodeNames":`)
	nodesKey  = []byte(`,"Nodes":`)
	nodeStart = []byte(`{"metadata":{"name":"`)
	between   = []byte(`","`)
	null      = []byte("null")
)

// call is what stands in a body, as it came: Go writes the pod first, then the nodes, then their names.
type call struct{ nodes, names []byte }

func split(body []byte) (call, error) {
	body = bytes.TrimSpace(body)
	nodes, names := bytes.Index(body, nodesKey), bytes.LastIndex(body, namesKey)
	if nodes < 0 || names < nodes || !bytes.HasSuffix(body, []byte("}")) {
		return call{}, errors.New("no nodes stand where a scheduler writes them")
	}
	return call{
		nodes: body[nodes+len(nodesKey) : names],
		names: body[names+len(namesKey) : len(body)-1],
	}, nil
}

func (c call) whole() bool { return bytes.Equal(c.names, null) }

func filter(body []byte) ([]byte, error) {
	c, err := split(body)
	if err != nil {
		return nil, err
	}
	key, same := `{"NodeNames":`, c.names
	if c.whole() {
		key, same = `{"Nodes":`, c.nodes
	}
	return append(append([]byte(key), same...), '}'), nil
}

func prioritize(body []byte) ([]byte, error) {
	c, err := split(body)
	if err != nil {
		return nil, err
	}
	answer := make([]byte, 0, 4*len(c.names)+64)
	answer = append(answer, '[')
	for i, name := range c.each() {
		if i > 0 {
			answer = append(answer, ',')
		}
		answer = append(append(append(answer, `{"Host":"`...), name...), `","Score":0}`...)
	}
	return append(answer, ']'), nil
}

func (c call) each() [][]byte {
	if !c.whole() {
		if len(c.names) <= len(`[""]`) {
			return nil
		}
		return bytes.Split(c.names[2:len(c.names)-2], between)
	}
	var found [][]byte
	for _, node := range bytes.Split(c.nodes, nodeStart)[1:] {
		name, _, _ := bytes.Cut(node, []byte(`"`))
		found = append(found, name)
	}
	return found
}

// binder writes Bindings, as a scheduler that asks for it does no more by itself.
type binder struct {
	client        *http.Client
	server, token string
}

type object map[string]any

func (b binder) bind(body []byte) ([]byte, error) {
	var asked struct{ PodName, PodNamespace, PodUID, Node string }
	if err := json.Unmarshal(body, &asked); err != nil {
		return nil, err
	}
	binding, err := json.Marshal(object{
		"apiVersion": "v1",
		"kind":       "Binding",
		"metadata":   object{"name": asked.PodName, "namespace": asked.PodNamespace, "uid": asked.PodUID},
		"target":     object{"apiVersion": "v1", "kind": "Node", "name": asked.Node},
	})
	if err != nil {
		return nil, err
	}
	path := fmt.Sprintf("%s/api/v1/namespaces/%s/pods/%s/binding", b.server, asked.PodNamespace, asked.PodName)
	request, err := http.NewRequest(http.MethodPost, path, bytes.NewReader(binding))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+b.token)
	request.Header.Set("Content-Type", "application/json")
	response, err := b.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusCreated {
		err = fmt.Errorf("the API server answered %s: %s", response.Status, said)
	}
	return []byte(`{"Error":""}`), err
}

func answering(answer func([]byte) ([]byte, error)) http.HandlerFunc {
	return func(writer http.ResponseWriter, request *http.Request) {
		body := make([]byte, max(request.ContentLength, 0))
		if _, err := io.ReadFull(request.Body, body); err != nil {
			http.Error(writer, err.Error(), http.StatusBadRequest)
			return
		}
		said, err := answer(body)
		if err != nil {
			log.Print(err)
			http.Error(writer, err.Error(), http.StatusInternalServerError)
			return
		}
		writer.Header().Set("Content-Type", "application/json")
		_, _ = writer.Write(said)
	}
}

func trusting(file string) (*http.Client, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	return &http.Client{Transport: transport}, nil
}

func main() {
	port := flag.Int("port", 0, "where to listen, on 127.0.0.1")
	server := flag.String("server", "", "the URL of the API server that takes Bindings")
	ca := flag.String("ca", "", "the file with its certificate authority")
	token := flag.String("token", "", "by which it knows who writes")
	flag.Parse()
	client, err := trusting(*ca)
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/filter", answering(filter))
	http.HandleFunc("/prioritize", answering(prioritize))
	http.HandleFunc("/bind", answering(binder{client, *server, *token}.bind))
	http.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	log.Fatal(http.ListenAndServe(fmt.Sprintf("127.0.0.1:%d", *port), nil))
}
