from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leap_jax.kernels.includes import ALLOWED, blank, leaves_toolkit, refusals, strip


def refused(source):
    return [(diagnostic.line, diagnostic.message) for diagnostic in refusals(strip(source))]


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ('#include "/etc/passwd"', "</etc/passwd>"),
        ("#include </etc/passwd>", "</etc/passwd>"),
        ("#include </proc/self/environ>", "</proc/self/environ>"),
        ('#include "../../etc/passwd"', "<../../etc/passwd>"),
        ("#include <cuda_fp16.h/../x>", "<cuda_fp16.h/../x>"),
        ("#include <vector>", "<vector>"),
        ('  #\tinclude\t"secret.h"', "<secret.h>"),
        ('%:include "secret.h"', "<secret.h>"),
        ('??=include "secret.h"', "<secret.h>"),
        ('#inc\\\nlude "secret.h"', "<secret.h>"),
        ('#inc\\ \t\r\nlude "secret.h"', "<secret.h>"),
        ('#/* a */include/* b */"secret.h"', "<secret.h>"),
        ('/* a\n*/ # /*\n*/ include "secret.h"', "<secret.h>"),
        ('int x;\r#include "secret.h"', "<secret.h>"),
        ('#define NAME "secret.h"\n#include NAME', "a computed name"),
        ("#define NAME <math.h>\n#include NAME", "a computed name"),
        ('#include_next "secret.h"', "#include_next"),
        ('#import "secret.h"', "#import"),
        ('#embed "secret.h"', "#embed"),
        ('#if __has_include("/etc/shadow")\n#endif', "__has_include"),
        ('#if __has_include_next("/etc/shadow")\n#endif', "__has_include"),
        ('#line 7 "RESULT"', "#line"),
        ('# 7 "RESULT"', "#line"),
        # A string or comment that seems to swallow the directive.
        ('#define x R"(\n#include "secret.h"\n)"', "<secret.h>"),
        ('\' /*\n"*/ #include <secret.h> // "', "<secret.h>"),
        ('const char* s = "/*";\n#include "secret.h"\n// */', "<secret.h>"),
        ("// ' \n#include <secret.h>", "<secret.h>"),
        ('foo_R"( /* )"\n#include <secret.h>', "<secret.h>"),
        ("int n = 1'000'/*'*/;\n#include <secret.h>", "<secret.h>"),
    ],
)
def test_every_spelling_is_refused(source, shown):
    assert len(refused(source)) == 1
    assert shown in refused(source)[0][1]


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_allowed_headers_pass_in_both_forms(name):
    assert refused(f'#include <{name}>\n # include "{name}" // why\n') == []


@pytest.mark.parametrize(
    "source",
    [
        "// #include <vector>\n/* #include <vector>\n#include <string>\n*/ int x;",
        "// a comment \\\n#include <vector>\n",
        "#pragma once\n#pragma unroll 4\n#define LINE(x) #x\n",
        "const char* s = \"/* //\"; char c = '\"'; int n = 1'000; // '\n",
        "int included; int line; #error don't\n",
        'const char* s = "#include <vector>", *t = R"(a #include <vector>)";\n',
    ],
)
def test_what_only_looks_like_an_include_passes(source):
    assert refused(source) == []


def test_refusal_names_line_and_what_is_allowed():
    (line, message), *rest = refused("#include <math.h>\n\n#include <vector>\n")
    assert (line, rest) == (3, [])
    assert message.startswith("include of <vector> is not allowed; allowed: cuda_fp16.h, ")


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ("int a;\n/* open\nint b;", 2, "comment is not closed"),
        ("int a; /*/", 1, "comment is not closed"),
        ('const char* s =\n R"x(abc)y"\n;', 2, "raw string is not closed"),
        ('const char* s = R"(', 1, "raw string is not closed"),
        ('const char* s = R"x()x', 1, "raw string is not closed"),
    ],
)
def test_what_is_not_closed_is_refused(source, line, message):
    assert refused(source) == [(line, message)]


def test_closed_comments_and_raw_strings_pass():
    assert refused('/**/ /* " */ const char* s = R"(")" R"x(/* )")x" "/*"; // /*\n// R"(\n') == []


def test_blank_leaves_code_alone():
    source = 'a /* b */ "c" u8R"x(d" // )x" \'e\' 1\'0 // f\ng'
    assert blank(source).split() == ["a", '""', '""', "''", "1'0", "g"]


def test_host_headers_say_what_is_taken():
    assert refused("#include <torch/extension.h>")[0][1].endswith("only device code and launch lines are taken")


@pytest.mark.parametrize(
    ("source", "leaves"),
    [
        ('#include "/etc/passwd"', True),
        ("#/**/inc\\\nlude < ../x>", True),
        ('%:import "~/x"', True),
        ('#include "cub/../../x"', True),
        ("#include <vector>", False),
        ('// #include "/etc/passwd"', False),
        ("#define X </etc/passwd>\n#include X", False),
    ],
)
def test_leaving_the_toolkit(source, leaves):
    assert leaves_toolkit(strip(source)) is leaves


def test_strip_keeps_code_and_line_numbers():
    source = 'a /* 1\n2 */ b // c \\\n still\nd\\\ne "/* no */" \'"\' R"(// no)" f\n#define X /*\n*/ 5\ng'
    lines = strip(source).split("\n")
    assert [line.split() for line in lines] == [
        ["a", "b"], [], [],
        ["de", '"/*', "no", '*/"', "'\"'", 'R"(//', 'no)"', "f"], [],
        ["#define", "X", "5"], [],
        ["g"],
    ]  # fmt: skip


_PIECES = st.sampled_from(
    [
        '"',
        "'",
        "/*",
        "*/",
        "//",
        "\\",
        "\n",
        "\\\n",
        "\r\n",
        'R"(',
        ')"',
        "u8",
        "1'0",
        "#",
        "%:",
        "include ",
        "x",
        " ",
        "<y>",
    ]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(_PIECES, max_size=30).map("".join))
def test_strip_keeps_the_number_of_lines_and_leaves_nothing_to_strip(source):
    text = source.replace("\r\n", "\n")
    stripped = strip(source)
    assert stripped.count("\n") == text.count("\n")
    assert "\\\n" not in stripped
    assert "\r" not in stripped
