"""Writes the seed corpus of fuzz_constraint: grammars that use each construct, after a byte that chooses the
walk.

    python tests/fuzz/make_constraint_corpus.py
"""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]

GRAMMARS = {
    "json": r'''root   ::= value
value  ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
array  ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\"" ws
number ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
ws     ::= [ \t\n]{0,20}
''',
    "arithmetic": "root ::= term ([-+*/] term)*\nterm ::= [0-9]+ | \"(\" root \")\" # groups\n",
    "counted": r'root ::= "a"{3} "b"{2,} "c"{1,4} [a-z]{0,40} "."',
    "classes": r'root ::= [^a-z\]\n] [\u00e9-\u00eb] [\U0001F600-\U0001F64F] . [-a] "\x41\t\r\\"',
    "groups": 'root ::= (("a" | "b" (\n "c" |\n "d"))? "e")+\n',
    "alternatives": 'root ::= one |\n two\n | three\none ::= "ab" | "abc"\n'
                    'two ::= "ab" three | one "d"\nthree ::= \n',
    "ambiguous": 'root ::= "a" | "a" root | "a" root root',
    "brackets": 'root ::= "(" root "x"? | "[" root "]" | "y"',
    "left_recursion": 'root ::= e? root "a" | "b"\ne ::= "e"',
    "endless": 'root ::= "a" root',
    "large": "root ::= (([ab]{1,1000} | .){1,1000}){1,1000}",
    "exponential": 'root ::= [ab]* "a" [ab]{20}',
}


def main():
    folder = ROOT / "tests/fuzz/corpus/constraint"
    folder.mkdir(parents=True, exist_ok=True)
    for i, (name, grammar) in enumerate(GRAMMARS.items()):
        (folder / name).write_bytes(bytes([i]) + grammar.encode())


if __name__ == "__main__":
    main()
