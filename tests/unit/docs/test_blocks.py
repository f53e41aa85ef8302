"""Shell blocks of a page are read as they stand, and a page that leaves open how to run one is a mistake."""

import pytest

from numalign.model.errors import BadInput
from tests.unit.docs.blocks import Block, Needs, missing, paragraphs, read

PAGE = """\
# A page

```sh
echo one
```

prints

```text
one
```

1. in a list, with a comment

   <!-- needs: cluster -->
   <!-- exits: 1 -->
   ```sh
   kubectl apply -f pod.yaml
     indented
   ```

<!-- not run: needs an EKS cluster -->
```sh
eksctl create cluster
```

```yaml
kind: Pod
```

<!-- background: until ready at -->
```sh
make serve
```
"""


def test_block_has_commands_mode_and_output() -> None:
    assert read(PAGE) == (
        Block(3, "echo one\n", shown=("one",)),
        Block(17, "kubectl apply -f pod.yaml\n  indented\n", needs=Needs.CLUSTER, exit_code=1),
        Block(23, "eksctl create cluster\n", reason="needs an EKS cluster"),
        Block(32, "make serve\n", until="ready at"),
    )


def test_all_mistakes_of_a_page_are_named_at_once() -> None:
    page = """\
<!-- needs: clutser -->
<!-- exits: never -->
```sh
a
```
<!-- background: TEXT -->
<!-- not-run: because -->
<!-- skip: because -->
```sh
b
```
```bash
c
```
"""
    with pytest.raises(BadInput) as caught:
        read(page)
    assert [str(mistake) for mistake in caught.value.mistakes] == [
        "line 3: needs: 'clutser': want one of nothing, cluster, release, numalign, go",
        "line 3: exits: 'never': want an exit code",
        "line 9: background: 'TEXT': want until TEXT",
        "line 9: unknown comment 'not-run' before a shell block",
        "line 9: unknown comment 'skip' before a shell block",
        "line 12: fence shell blocks as ```sh",
    ]


def test_an_output_is_shown_in_paragraphs() -> None:
    assert paragraphs("$ command\na\nb\n\nc\n...\nd\n") == ["a\nb", "c", "d"]


@pytest.mark.parametrize(
    ("shown", "absent"),
    [
        ("on node-1", []),
        ("pod-... on node-1\n  second", []),
        ("pod-... on node-2", ["pod-... on node-2"]),
        ("pod-x7\non node-1", []),
        ("second\npod", ["second\npod"]),
        ("pod-.* on", ["pod-.* on"]),
    ],
)
def test_output_is_compared_with_dots_as_wildcards(shown: str, absent: list[str]) -> None:
    assert missing([shown], "pod-x7 on node-1  \n  second\n") == absent
