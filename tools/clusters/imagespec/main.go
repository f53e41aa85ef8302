// Validates a JSON document from standard input by the OCI image specification; its media type is the argument.
package main

import (
	"fmt"
	"os"

	"github.com/opencontainers/image-spec/schema"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: validate-image-document MEDIA-TYPE < DOCUMENT")
		os.Exit(2)
	}
	if err := schema.Validator(os.Args[1]).Validate(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
