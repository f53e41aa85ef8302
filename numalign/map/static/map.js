// What a page cannot do by itself: follow changes, and move between tiles with arrow keys.
"use strict";

(() => {
  const GATHERING = 100; // Milliseconds in which changes are gathered before they are asked for.
  const LONGEST_ADDRESS = 4000; // Characters of an address that names tiles.
  const RELOAD_EVERY = 5000; // Milliseconds between two reloads of a whole page.
  const [FIRST_PATIENCE, LAST_PATIENCE] = [500, 30000]; // Milliseconds before a stream is opened again.

  const page = document.documentElement.dataset;
  const later = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });
  const main = () => document.querySelector("main");

  async function read(address) {
    const answer = await fetch(address, { credentials: "same-origin", headers: { Accept: "text/html" } });
    if (answer.status === 401) {
      location.reload();
    }
    if (!answer.ok) {
      throw new Error(`${address}: ${answer.status}`);
    }
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  }

  // Tiles are known by their link, which names their node.

  let tiles = new Map();

  function index() {
    tiles = new Map();
    for (const link of document.querySelectorAll(".tiles a")) {
      tiles.set(link.getAttribute("href"), link);
    }
    for (const list of document.querySelectorAll(".tiles")) {
      list.querySelectorAll("a").forEach((link, at) => { link.tabIndex = at ? -1 : 0; });
    }
  }

  function put(address, fresh) {
    const old = tiles.get(address);
    const item = document.adoptNode(fresh.closest("li"));
    const focused = document.activeElement === old;
    fresh.tabIndex = old.tabIndex;
    old.closest("li").replaceWith(item);
    item.classList.add("changed");
    tiles.set(address, fresh);
    if (focused) {
      fresh.focus({ preventScroll: true });
    }
  }

  // Whether all of it could be put in place; what came, went or moved wants the whole page.
  function replace(answer, asked) {
    let placed = true;
    for (const part of answer.querySelectorAll("[data-part]")) {
      const old = document.querySelector(`[data-part="${CSS.escape(part.dataset.part)}"]`);
      if (old) {
        old.replaceWith(document.adoptNode(part));
      }
    }
    for (const fresh of answer.querySelectorAll(".tiles a")) {
      const address = fresh.getAttribute("href");
      const group = fresh.closest(".tiles").dataset.group;
      if (tiles.has(address) && tiles.get(address).closest(".tiles").dataset.group === group) {
        put(address, fresh);
      } else {
        placed = false;
      }
      asked.delete(address);
    }
    return placed && ![...asked].some((address) => tiles.has(address));
  }

  const addressOf = (name) => page.nodes + encodeURIComponent(name);

  function* batches(names) {
    const query = new URLSearchParams(location.search).toString();
    const base = `${page.tiles}?${query}${query ? "&" : ""}`;
    let address = base;
    let asked = new Set();
    for (const name of names) {
      const more = `name=${encodeURIComponent(name)}&`;
      if (asked.size && address.length + more.length > LONGEST_ADDRESS) {
        yield [address, asked];
        [address, asked] = [base, new Set()];
      }
      address += more;
      asked.add(addressOf(name));
    }
    if (asked.size) {
      yield [address, asked];
    }
  }

  async function freshTiles(names) {
    let placed = true;
    for (const [address, asked] of batches(names)) {
      placed = replace(await read(address), asked) && placed;
    }
    return placed;
  }

  // The whole page anew, with what was open and focused.
  async function reload() {
    const fresh = (await read(location.href)).querySelector("main");
    const open = new Map([...main().querySelectorAll("details[data-key]")].map((each) => [each.dataset.key, each.open]));
    const focused = document.activeElement?.getAttribute("href");
    for (const each of fresh.querySelectorAll("details[data-key]")) {
      each.open = open.get(each.dataset.key) ?? each.open;
    }
    for (const form of fresh.querySelectorAll("form")) {
      const typed = [...main().querySelectorAll("form")].find((old) => old.action === form.action);
      if (typed) {
        form.replaceWith(typed);
      }
    }
    main().replaceWith(document.adoptNode(fresh));
    index();
    if (focused) {
      [...main().querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus({ preventScroll: true });
    }
  }

  // One question at a time; what changes meanwhile is asked for in the next one.

  const changed = new Set();
  let everything = false;
  let asking = false;
  let reloaded = -RELOAD_EVERY;

  function concerns(name) {
    return page.watch === "*" || page.watch === name;
  }

  async function refresh() {
    if (asking) {
      return;
    }
    asking = true;
    await later(GATHERING);
    while (everything || changed.size) {
      const names = [...changed];
      changed.clear();
      try {
        if (page.watch === "*" && !everything) {
          everything = !(await freshTiles(names));
        } else {
          everything = true;
        }
        if (everything) {
          await later(Math.max(page.watch === "*" ? reloaded + RELOAD_EVERY - performance.now() : 0, 0));
          everything = false;
          await reload();
          reloaded = performance.now();
        }
      } catch (error) {
        console.warn(error);
        everything = true;
        await later(RELOAD_EVERY);
      }
    }
    asking = false;
  }

  // The stream of changes.

  function tell(state, text) {
    const status = document.querySelector(".live");
    status.classList.toggle("on", state);
    status.classList.toggle("off", !state);
    status.textContent = text;
  }

  function follow() {
    let patience = FIRST_PATIENCE;
    let since = page.revision;

    function open() {
      const stream = new EventSource(`${page.events}?since=${encodeURIComponent(since)}`);
      const listen = (kind, take) => stream.addEventListener(kind, (event) => {
        since = event.lastEventId || since;
        take(event.data);
      });
      stream.addEventListener("open", () => {
        patience = FIRST_PATIENCE;
        tell(true, "live");
      });
      listen("nodes", (data) => {
        for (const name of JSON.parse(data).filter(concerns)) {
          changed.add(name);
        }
        refresh();
      });
      listen("all", () => {
        everything = true;
        refresh();
      });
      listen("login", () => {
        stream.close();
        location.reload();
      });
      stream.addEventListener("error", async () => {
        stream.close();
        tell(false, "reconnecting");
        await later(patience * (0.5 + Math.random()));
        patience = Math.min(2 * patience, LAST_PATIENCE);
        open();
      });
    }

    open();
  }

  // Arrow keys.

  const STEPS = { ArrowLeft: -1, ArrowRight: 1 };
  const ROWS = { ArrowUp: -1, ArrowDown: 1 };

  // The nearest link of the next row in this direction.
  function across(links, from, step) {
    const here = links[from].getBoundingClientRect();
    let best = null;
    let row = null;
    for (let at = from + step; at >= 0 && at < links.length; at += step) {
      const there = links[at].getBoundingClientRect();
      if (there.width === 0 || Math.abs(there.top - here.top) < 2) {
        continue;
      }
      row ??= there.top;
      if (Math.abs(there.top - row) >= 2) {
        break;
      }
      const off = Math.abs(there.left - here.left);
      if (!best || off < best.off) {
        best = { off, link: links[at] };
      }
    }
    return best?.link;
  }

  function target(links, from, key) {
    if (key in ROWS) {
      return across(links, from, ROWS[key]);
    }
    return { Home: links[0], End: links.at(-1) }[key] ?? links[from + STEPS[key]];
  }

  function move(event) {
    const link = event.target.closest(".tiles a");
    if (!link || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const links = [...tiles.values()];
    const next = target(links, links.indexOf(link), event.key);
    if (next) {
      event.preventDefault();
      link.closest(".tiles").querySelectorAll('[tabindex="0"]').forEach((each) => { each.tabIndex = -1; });
      next.tabIndex = 0;
      next.focus();
    }
  }

  // A file that is chosen is shown before it is sent.
  async function show(event) {
    const file = event.target.files?.[0];
    const field = document.querySelector("textarea[name=manifest]");
    if (file && field && file.size <= Number(field.dataset.mostBytes)) {
      field.value = await file.text();
      event.target.value = "";
    }
  }

  index();
  document.addEventListener("keydown", move);
  document.addEventListener("change", show);
  if (page.events) {
    follow();
  }
})();
