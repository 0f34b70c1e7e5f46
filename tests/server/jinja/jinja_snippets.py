"""Small templates for one feature each; test_jinja_oracle.py renders them on both sides with CONTEXT."""

CONTEXT = {
    "s": "Hello World",
    "u": "Größe 日本語 🙂 ñ",
    "empty": "",
    "ml": "a\nb\n\nc\n",
    "pad": "  \t x y \n ",
    "n": 7,
    "neg": -3,
    "f": 2.5,
    "t": True,
    "no": None,
    "l": [3, 1, 2],
    "nested": [[1, 2], [3, [4, "x"]]],
    "mixed": [1, 2.0, "a", None, True, {"k": [1]}],
    "d": {"b": 1, "a": {"x": "y"}, "items": 5, "C": None},
    "users": [
        {"name": "bob", "age": 30, "tags": ["x"], "home": {"city": "Oslo"}},
        {"name": "Alice", "age": 25, "tags": [], "home": {"city": "Bonn"}},
        {"name": "carol", "age": 30, "home": {"city": "Oslo"}},
    ],
}

EXPRESSIONS = r"""
1 + 2 * 3
(1 + 2) * 3
2 ** 3 ** 2
-2 ** 2
7 // 2
-7 // 2
7 % -3
-7 % 3
7 / 2
6 / 2
7.0 // 2
-7.5 % 2
2 ** -1
2 ** 0.5
1e3
1.5e-7
1e16
123456789012345680.0
0.1 + 0.2
1_000
0x1f + 0b101 + 0o17
100000 * 100000
true + true
not true
not not 1
1 < 2 < 3
1 < 3 < 2
3 > 2 >= 2 != 1
1 == 1.0
true == 1
'1' == 1
none == none
none is none
[1, 2] == [1, 2]
(1, 2) == [1, 2]
{'a': 1} == {'a': 1.0}
'a' < 'b'
[1, 2] < [1, 3]
[1] < [1, 0]
'b' in 'abc'
'x' not in 'abc'
1 in [1, 2]
'a' in d
not 'a' in d
not 'zz' in d
3 in (1, 2)
x in l
'a' ~ 1 ~ none ~ true ~ 1.0
'a' + 'b' ~ 'c'
1 ~ 2 + '3'
'ab' * 3
3 * 'ab'
'ab' * 0
'ab' * -1
[1, 2] * 2
[1] + [2]
(1,) + (2, 3)
1 and 0
1 and 2
0 or 'x'
'' or none
none and 1
1 if true else 2
1 if false else 2
1 if false
(1 if false) is defined
'a' if 0 else 'b' if 0 else 'c'
[1, 2, 3][0]
[1, 2, 3][-1]
[1, 2, 3][5]
[1, 2, 3][1:]
[1, 2, 3][:-1]
[1, 2, 3][::-1]
[1, 2, 3][::2]
[1, 2, 3][5:1:-2]
[1, 2, 3][-100:100]
[1, 2, 3, 4, 5][3:0:-1]
(1, 2, 3)[1:]
'hello'[1]
'hello'[-1]
'hello'[1:3]
'hello'[::-1]
'hello'[10]
u[0:6]
u[::-1]
u[-1]
u | length
u | upper
u | lower
u | title
'straße' | upper
'ÀÉÎõü ŠŽ Ωμέγα Привет' | lower
'ÀÉÎõü ŠŽ Ωμέγα Привет' | upper
'éCOLE' | capitalize
d.b
d['b']
d.a.x
d.a['x']
d.missing
d['items']
d.get('b')
d.get('zz')
d.get('zz', 'def')
d.keys() | list
d.values() | list
d.items() | list
d | items | list
d
d.keys()
d | length
l
mixed
nested
[1, 'a', "it's", 'say "hi"', 'both \' and "', 'tab\tnew\nline', 'é', '\x01\x7f\xa0', '🙂', '\u200b']
(1,)
()
[]
{}
{'a': 1, 2: 'b', none: 3.5, true: 4}
range(5)
range(2, 10, 3) | list
range(5, 0, -2) | list
range(0) | list
range(1, 3)
range(1, 9, 2)
range(10)[3]
range(10)[2:5] | list
range(3) | length
none
true
False
1.0
-0.0
1e100
missing
missing | default('d')
missing | d
none | default('d')
none | default('d', true)
'' | default('d', true)
'' | d('x', boolean=true)
missing | length
missing | list
missing | upper
missing | join
missing ~ 'x'
missing == missing2
missing is defined
missing is undefined
missing is none
missing is string
missing is iterable
missing in [1]
1 in missing
not missing
missing or 'x'
s is string
s is mapping
s is sequence
s is iterable
s is number
l is sequence
l is iterable
l is mapping
d is mapping
d is sequence
n is number
n is integer
n is float
f is float
f is number
t is number
t is integer
t is boolean
t is true
t is false
no is none
no is not none
n is odd
n is even
n is divisibleby 7
n is divisibleby(3)
n is eq 7
n is equalto 7
n is ==(7)
n is ne(7)
n is gt 5
n is lt 5
n is ge(7)
n is le(6)
n is in [7]
n is not in [7]
'abc' is lower
'ABC' is upper
'aBC' is upper
'123' is lower
'éa' is lower
n is sameas 7
range is callable
s is callable
'upper' is filter
'odd' is test
n is odd and n is gt 5
n is defined and n == 7
s is not defined or true
s | upper | lower
s | replace('l', 'L')
s | replace('l', 'L', 1)
s | replace('', '-')
n | replace(7, 8)
s | trim
pad | trim
'xxaxx' | trim('x')
'a,b' | upper | replace(',', ';')
l | join
l | join(', ')
l | join(d='-')
users | join(', ', attribute='name')
mixed | join('|')
'abc' | join('-')
s | length
l | count
l | first
l | last
[] | first
[] | last
'abc' | first
'abc' | last
l | sort
l | sort(reverse=true)
['b', 'A', 'c'] | sort
['b', 'A', 'c'] | sort(case_sensitive=true)
users | sort(attribute='age') | map(attribute='name') | list
users | sort(attribute='age', reverse=true) | map(attribute='name') | list
users | sort(attribute='age,name') | map(attribute='name') | list
users | sort(attribute='home.city') | map(attribute='name') | join(',')
[1, 2, 1, 'a', 'A'] | unique | list
users | unique(attribute='age') | map(attribute='name') | list
l | reverse | list
'abc' | reverse
l | min
l | max
users | max(attribute='age')
[] | max
l | sum
users | sum(attribute='age')
users | sum('age', 10)
[1, 2.5] | sum
users | map(attribute='name') | list
users | map(attribute='tags') | list
users | map(attribute='zz', default='none') | list
users | map(attribute='home.city') | list
['a', 'b'] | map('upper') | list
['a', 'b'] | map('replace', 'a', 'x') | list
[[1, 2], [3]] | map('length') | list
[[1, 2], [3]] | map('first') | list
[1, 2, 3, 4] | select('odd') | list
[1, 2, 3, 4] | reject('odd') | list
[0, 1, '', 'a', none] | select | list
[0, 1, '', 'a', none] | reject | list
[1, 5, 9] | select('gt', 4) | list
users | selectattr('tags') | map(attribute='name') | list
users | selectattr('age', 'equalto', 30) | map(attribute='name') | list
users | selectattr('age', '==', 30) | list | length
users | rejectattr('age', 'eq', 30) | map(attribute='name') | list
users | rejectattr('tags') | map(attribute='name') | list
users | selectattr('tags', 'defined') | list | length
users | selectattr('name', 'in', ['bob', 'carol']) | map(attribute='name') | join(' ')
users | selectattr('nope') | first is defined
(users | selectattr('age', 'eq', 99) | list | length) > 0
d | dictsort
{'b': 1, 'A': 2, 'c': 0} | dictsort
{'b': 1, 'A': 2, 'c': 0} | dictsort(true)
{'b': 1, 'A': 2, 'c': 0} | dictsort(by='value')
{'b': 1, 'A': 2, 'c': 0} | dictsort(reverse=true)
[1, 2, 3, 4, 5] | batch(2) | list
[1, 2, 3, 4, 5] | batch(2, 'x') | list
[1, 2, 3, 4, 5] | slice(2) | list
[1, 2, 3, 4, 5] | slice(3, 'x') | list
users | groupby('age') | map('first') | list
'hello world foo-bar (baz)' | title
'hello' | capitalize
'HELLO wORLD' | capitalize
'a' | string
5 | string
none | string
[1, 'a'] | string
'42' | int
' 42 ' | int
'4_2' | int
'-42' | int
'+42' | int
'42.9' | int
'abc' | int
'abc' | int(5)
'abc' | int(default=-1)
'0x1A' | int(base=16)
'ff' | int(0, 16)
'101' | int(0, 2)
3.99 | int
-3.99 | int
true | int
none | int
'1e3' | int
'3.5' | float
'abc' | float
'abc' | float(1.5)
' 1e3 ' | float
5 | float
none | float
'inf' | float
3.14159 | round(2)
2.5 | round
3.5 | round
-2.5 | round
2.675 | round(2)
1234.5 | round(-2)
5 | round
5 | round(1)
42.55 | round(1, 'floor')
42.51 | round(1, 'ceil')
42 | round(0, 'ceil')
-5 | abs
-5.5 | abs
true | abs
'<a href="x">\'&' | e
'<a>' | escape
'<a>' | safe
ml | indent
ml | indent(2)
ml | indent(2, true)
ml | indent(2, blank=true)
ml | indent('> ')
ml | indent(width=3, first=true)
'one two  three' | wordcount
'a b/c?d=é&e' | urlencode
{'a': 1, 'b c': 'd/e'} | urlencode
'%s is %d years, %.2f%%' | format('Bob', 30, 1.5)
'%s' | format(l)
'%(a)s-%(b)05d' | format(a='x', b=42)
'%5s|%-5s|%05.1f|%x|%o|%e|%g|%c|%r' | format('a', 'b', 3.14159, 255, 8, 12345.678, 0.0001, 'z', 'q')
'%s %s' % (1, 'two')
'%d items' % 3
'%s' % 'x'
'%+d % d' % (5, 5)
'100%%' % ()
'foo bar baz qux' | truncate(9)
'foo bar baz qux' | truncate(9, true)
'foo bar baz qux' | truncate(11)
'foo bar baz qux' | truncate(11, false, '...', 0)
[1, 2] | tojson
d | tojson
d | tojson(indent=2)
nested | tojson(indent=4)
mixed | tojson
u | tojson
u | tojson(ensure_ascii=true)
'"\\/\b\f\n\r\t\x01\x7f é' | tojson
'\u2028' | tojson
'<>&\'' | tojson
[] | tojson(indent=2)
{} | tojson(indent=2)
{'a': [], 'b': {}} | tojson(indent=2)
[1, [2, {'a': 3}]] | tojson(separators=(',', ':'))
{'b': 1, 'a': 2} | tojson(sort_keys=true)
{'b': 1, 'a': 2} | tojson(indent=1, sort_keys=true)
{1: 2, none: 3, true: 4, 1.5: 5} | tojson
(1, 2) | tojson
1.0 | tojson
1e20 | tojson
1e-7 | tojson
true | tojson
none | tojson
'x' | tojson
'a b c'.split()
'a b c'.split(' ')
'a  b '.split(' ')
'a  b '.split()
'a,b,c'.split(',', 1)
'a b c'.split(maxsplit=1)
' a  b  c '.split(none, 1)
' a  b '.split(none, 5)
'  '.split(none, 0)
'a,b,c'.rsplit(',', 1)
'a,b,c'.rsplit(',')
'a<x>b'.split('<x>')[-1]
'abc'.split('zz')
''.split()
''.split(',')
'a\nb\r\nc\n'.splitlines()
'a\nb'.splitlines(true)
'a=b=c'.partition('=')
'a=b=c'.rpartition('=')
'abc'.partition('-')
pad.strip()
pad.lstrip()
pad.rstrip()
'xxaxx'.strip('x')
'xyaxy'.lstrip('yx')
'xyaxy'.rstrip('yx')
'\n\na\n'.strip('\n')
'éaé'.strip('é')
' \u3000x\u00a0'.strip()
s.startswith('Hello')
s.startswith(('x', 'He'))
s.endswith('ld')
s.endswith(('a', 'b'))
s.replace('l', 'L')
s.replace('l', 'L', 2)
s.replace('', '.')
s.upper()
s.lower()
'hello wORLD'.title()
"they're bill's".title()
'hELLO'.capitalize()
s.find('World')
s.find('zz')
u.find('日')
s.rfind('o')
s.index('W')
s.count('l')
s.count('')
', '.join(['a', 'b'])
''.join([])
'{} {}'.format(1, 'b')
'{1} {0}'.format('a', 'b')
'{a}-{{x}}'.format(a=5)
'prefix-x'.removeprefix('prefix-')
'prefix-x'.removeprefix('zz')
'x.txt'.removesuffix('.txt')
'123'.isdigit()
'12a'.isdigit()
''.isdigit()
'abc'.isalpha()
'abc1'.isalpha()
'abc1'.isalnum()
'  '.isspace()
'ABC'.isupper()
'abc'.islower()
'x'.ljust(3) ~ '|'
'x'.rjust(3, '.')
l.index(2)
l.count(1)
(1, 2, 1).count(1)
'it\'s' "quoted" 'joined'
'\x41\u00e9\U0001F642\101\0' | length
'unknown \d escape'
'line\
continued'
'a' 'b' | upper
dict(a=1, b=2)
dict({'x': 1}, y=2)
dict([('a', 1), ('b', 2)])
namespace(a=1).a
namespace(a=1).b is defined
[namespace(a=1).a, 2] | sum
joiner(', ')()
strftime_now('%d %b %Y')
strftime_now('%Y-%m-%d %H:%M:%S %A %B %j')
strftime_now('')
[1, 2, 3,]
{'a': 1,}
(1, 2,)
1, 2
d['a']['x'].upper()
users[0].name
users[-1]['home'].city
users[0]['nope'] is defined
users[0].nope.deeper is defined
'%s' is string
{'a': 1}.a
[{'a': 1}][0].a
'abc'.upper().lower().title()
-1 | abs
-(1) | abs
- 5 + 3
+5
--5
'a' in ['a'] and 'b' not in ['a']
'a' is string == true
n == 7 and s == 'Hello World' or false
(n == 7) ~ ''
l[n - 7]
l[:n - 5]
d['a' ~ '']
l | length > 2
l | length == 3 and l | first == 3
not l | length > 5
users | map(attribute='age') | sum / 2
(l | map('string') | join('+')) ~ '=' ~ (l | sum)
l is defined and l is not none and l | length
s[:5] + '...' if s | length > 5 else s
[x for x in l]
1 +
)
{{ nested
'unterminated
1 ++ 2
a b
foo(
foo(a=1, 2)
1 is
1 | 
1 | nosuch
1 is nosuch
nosuch()
nosuch.attr
nosuch['a']
nosuch + 1
nosuch < 1
-nosuch
nosuch | int
nosuch | tojson
none.attr
none.attr.more
none['a']
none + 'a'
'a' + 1
'a' + none
1 + 'a'
[1] + 'a'
1 < 'a'
none < 1
'a' in 5
1 in 'abc'
1 in none
5 | length
5 | list
none | length
5 | first
1 / 0
1 // 0
1 % 0
1.0 / 0
'a' * 'b'
s()
s.nosuch()
d.nosuch()
l.nosuch
[1, 2, 3]['a']
'abc'['a'] is defined
d[1] is defined
d[[1]] is defined
{[1]: 2}
range('a')
range(1, 2, 0)
range(200000)
range()
'abc'.split('')
'abc'.index('z')
l.index(99)
'%d' % 'a'
'%s %s' % (1,)
'%s' % (1, 2)
'%q' % 1
'{}'.format()
'abc'.upper(1)
s | replace('a')
s | upper(1)
[1, 'a'] | sort
[1, 'a'] | sum
'a' | abs
'a' | round
1.5 | round(1, 'up')
'x' | tojson(nosuch=1)
range | tojson
namespace(1)
dict(1)
d | dictsort(by='x')
[1, 2] | map | list
[1, 2] | map('nosuch') | list
[1, 2] | selectattr | list
[1, 2] | select('nosuch') | list
raise_exception('Only "this" & that: <b>\n2nd line')
raise_exception(5)
raise_exception()
""".strip("\n").replace("\\\ncontinued", "\\\0continued").split("\n")
EXPRESSIONS = [e.replace("\\\0", "\\\n") for e in EXPRESSIONS]

STATEMENTS = [
    # for
    "{% for x in l %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}"
    "/{{ loop.first }}/{{ loop.last }}/{{ loop.length }};{% endfor %}",
    "{% for x in l %}{{ loop.previtem }}<{{ x }}<{{ loop.nextitem }} {% endfor %}",
    "{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}",
    "{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}",
    "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }},{% endfor %}",
    "{% for x in [] %}x{% else %}none{% endfor %}",
    "{% for x in l if x > 9 %}x{% else %}none{% endfor %}",
    "{% for x in l if x > 1 %}{{ loop.index }}:{{ x }}:{{ loop.length }}:{{ loop.last }} {% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d | items %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d %}{{ k }};{% endfor %}",
    "{% for c in 'añ🙂' %}[{{ c }}]{% endfor %}",
    "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in [(1, 2), (3, 4)] %}{{ a }}{{ b }}{% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}",
    "{% for a, b in [1] %}{{ a }}{% endfor %}",
    "{% for x in missing %}x{% else %}nothing{% endfor %}",
    "{% for x in none %}x{% endfor %}",
    "{% for x in 5 %}x{% endfor %}",
    "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}",
    "{% for x in l %}{% for y in 'ab' %}{{ loop.index }}{{ y }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for x in l %}{% set outer = loop %}{% for y in 'ab' %}"
    "{{ outer.index }}{{ y }}{% endfor %}{% endfor %}",
    "{% for x in range(10) %}{% if x == 3 %}{% continue %}{% endif %}{% if x == 6 %}"
    "{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in l %}{% for y in l %}{% if y == 1 %}{% break %}{% endif %}"
    "{{ x }}{{ y }}{% endfor %};{% endfor %}",
    "{% for x in l %}{{ x }}{% break %}{% else %}never{% endfor %}",
    "{% set x = 0 %}{% for y in l %}{% set x = x + y %}{{ x }},{% endfor %}{{ x }}",
    "{% set ns = namespace(x=0) %}{% for y in l %}{% set ns.x = ns.x + y %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace() %}{% set ns.found = false %}{% for y in l %}{% if y == 1 %}"
    "{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.found }}",
    "{% for x in l %}{% if loop.first %}{% set z = 1 %}{% endif %}"
    "{{ z is defined }}{% endfor %}{{ z is defined }}",
    "{% for u in users %}{{ u.name }}: {{ u.tags | default([]) | length }}"
    "{{ ', ' if not loop.last }}{% endfor %}",
    "{{ loop is defined }}{% for x in l %}{{ loop is defined }}{% endfor %}",
    "{% for x in users | map(attribute='age') %}{{ loop.length }}{{ x }} {% endfor %}",
    "{% set g = l | map('string') %}{{ g | join }}|{{ g | join }}|{{ 'y' if g }}",
    "{% for x in l | reverse %}{{ x }}{% endfor %}",
    "{% for key in d | sort %}{{ key }}{% endfor %}",
    "{% for x in l recursive_oops %}{% endfor %}",
    "{% break %}",
    "{% for x in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    # if
    "{% if n > 5 %}a{% elif n > 3 %}b{% else %}c{% endif %}",
    "{% if n > 50 %}a{% elif n > 3 %}b{% elif n > 2 %}x{% else %}c{% endif %}",
    "{% if n > 50 %}a{% elif n > 30 %}b{% else %}c{% endif %}",
    "{% if '' %}a{% endif %}{% if [] %}b{% endif %}{% if {} %}c{% endif %}{% if 0 %}d{% endif %}{% if 0.0 %}"
    "e{% endif %}{% if none %}f{% endif %}{% if missing %}g{% endif %}{% if '0' %}h{% endif %}{% if [0] %}"
    "i{% endif %}{% if range(0) %}j{% endif %}",
    "{% if not missing and not empty %}yes{% endif %}",
    "{% if missing.attr %}a{% endif %}",
    "{% if d.missing %}a{% else %}b{% endif %}",
    "{% if d.missing.more %}a{% endif %}",
    "{% if true %}{% set y = 5 %}{% endif %}{{ y }}",
    # set
    "{% set a = 1 %}{% set b = a + 1 %}{{ a }}{{ b }}",
    "{% set a, b = 1, 2 %}{{ b }}{{ a }}",
    "{% set a, b = [1, 2, 3] %}",
    "{% set a = 1, 2 %}{{ a }}",
    "{% set x %}block {{ n }}{% endset %}[{{ x }}]",
    "{% set x | upper | replace('B', '_') %}block {{ n }}{% endset %}[{{ x }}]",
    "{% set x %}{% set y = 5 %}{{ y }}{% endset %}{{ x }}{{ y is defined }}",
    "{% set messages = [1, 2][1:] %}{{ messages }}",
    "{% set d.x = 5 %}",
    "{% set missing.x = 5 %}",
    "{% set true = 5 %}",
    "{% set ns = namespace(a=1, b='x') %}{% set ns.c = [1] %}{{ ns.a }}"
    "{{ ns.b }}{{ ns.c }}{{ ns.d is defined }}",
    "{% set ns = namespace({'a': 1}) %}{{ ns.a }}",
    "{% set ns = namespace(a=1) %}{% set other = ns %}{% set other.a = 2 %}{{ ns.a }}",
    "{% set ns = namespace(x='') %}{% set ns.x %}captured{% endset %}{{ ns.x }}",
    "{% set s = s | upper %}{{ s }}",
    # macro
    "{% macro m(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=5, a=4) }} {{ m() }}",
    "{% macro m(a, b=a) %}{{ a }}-{{ b }}{% endmacro %}{{ m(1) }}",
    "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}{{ m(none) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(x=2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro fact(k) %}{% if k <= 1 %}1{% else %}{{ k * (fact(k - 1) | int) }}"
    "{% endif %}{% endmacro %}{{ fact(6) }}",
    "{% macro m() %}{{ n }}{% endmacro %}{% set n = 8 %}{{ m() }}",
    "{% set k = 1 %}{% macro m() %}{{ k }}{% endmacro %}{% set k = 2 %}{{ m() }}",
    "{% macro m() %}{% set inside = 1 %}{% endmacro %}{{ m() }}{{ inside is defined }}",
    "{% macro m() %} x {% endmacro %}[{{ m() | trim }}]{{ m() | length }}",
    "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}in {{ n }}{% endcall %}",
    "{% macro m() %}[{{ caller('a', 2) }}]{% endmacro %}{% call(x, y) m() %}{{ x }}{{ y }}{% endcall %}",
    "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}",
    "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}",
    "{% macro m(x) %}{{ x }}{% endmacro %}{{ m.name }}{{ m is callable }}",
    "{% for x in l %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}",
    "{% macro m(*a) %}{% endmacro %}",
    "{% macro m(a=1, b) %}{% endmacro %}",
    "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}"
    "{{ m(**{'a': 3, 'b': 4}) }}{{ m(1, **{'b': 5}) }}",
    # filter, with, do, generation, raw, comments
    "{% filter upper %}abc {{ s }}{% endfilter %}",
    "{% filter replace('a', 'b') | upper %}aaa{% endfilter %}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}",
    "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }}",
    "{% set a = 5 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}",
    "{% generation %}text {{ n }}{% endgeneration %}!",
    "{% do missing %}ok",
    "{% raw %}{{ x }} {% if %} {# #}{% endraw %}",
    "{%- raw -%}  {{ x }}  {%- endraw -%}  y",
    "a {# comment {{ x }} {% y %} #} b",
    "a{#- c -#} b",
    "{#{#}x",
    "{# unclosed",
    "{% if %}",
    "{% if true %}",
    "{% endif %}",
    "{% if true %}{% endfor %}",
    "{% for in l %}{% endfor %}",
    "{% for x l %}{% endfor %}",
    "{% unknown %}",
    "{% %}",
    "{{ }}",
    "{{ 1 }",
    "{{ 1 %}",
    "{% if 1 }}",
    "{% raw %}x",
    "{{ '}}' }}{{ \"%}\" }}",
    "{{ {'a': {'b': 1}} }}",
    "{{ {'a': {'b': 1}}}}",
    "{ { } } {x} #} %} }}",
    "{{'a'}}{{-'b'-}} c",
    "{{- 1 -}}",
    "{{1}}{{ 2}}{{3 }}",
    "é{{ 'ü' }}日",
    "{% if s == 'Hello World' -%} yes {%- endif %}",
    "{{ raise_exception('stop: ' ~ n) }}",
    "line1\nline2 {{ nosuch.x }}",
    "{% set a = 1 -%}\n   {{ a }}",
    "{% set x = [] %}{{ x }}{% set y = x %}{{ y == x }}",
    "{{ users | map(attribute='name') | map('upper') | join(', ') }}",
    "{{ [1,2,3] | map('string') | list }}{{ (1, 'a', none) }}",
    "{% for m in users if m.age == 30 and loop is not defined %}{{ m.name }}{% endfor %}",
    "{%for x in l%}{{x}}{%endfor%}",
    "{% for x in l -%}\n  {{ x }}\n{%- endfor %}",
    "{% for x in l %}{% continue %}{% else %}each left{% endfor %}",
    "{% for x in l %}{% if x == 2 %}{% break %}{% endif %}{% else %}no{% endfor %}",
    "",
    "\n",
    "x\n",
    "x\n\n",
    "x\r\ny\rz\r\n",
    "{{ 'a\r\nb' }}",
]

# Every sign on either side of every kind of tag, at the start of a line, inside one, alone on one.
WHITESPACE = [
    pattern.replace("<", begin).replace(">", end)
    for begin in ("", "-", "+")
    for end in ("", "-", "+")
    for pattern in (
        "a\n  {%< if true >%}\n  b\n  {%< endif >%}\n  c\n",
        "  {%< if true >%}  x  {%< endif >%}  \n y",
        "a {%< set q = 1 >%} b\n\n{%< set r = 2 >%}\n\nc",
        "a\n\t{#< note >#}\n b {#< two >#} c\n",
        "\n\n  {%< for x in l >%}\n    {{ x }}\n  {%< endfor >%}\n\n",
        "a  \n  {%< raw %}\n  {{ x }} \n  {% endraw >%}\n  b",
        "{%< if true >%}\n\n  two  \n{%< endif >%}\n",
    )
] + [
    pattern.replace("<", begin).replace(">", end)
    for begin in ("", "-")
    for end in ("", "-")
    for pattern in ("a\n  {{< n >}}\n  b", "  {{< n >}}  \n  {{< s >}}\n\n",
                    "{{< n >}}\n{{< n >}}", "x {{< n >}} y")
] + [
    "{% set a = 1 %}  \n{% set b = 2 %}  {% set c = 3 %}\n   {% set d = 4 %}x",
    "x{% if true %}\n{% endif %}\ny",
    "  {# c #}  {% if true %}a{% endif %}",
    "a\u00a0\n\u3000{% if true -%}\u2003 b{%- endif %}",
    "\t{%- if true %}\n\tx{% endif %}\n",
    "   {% if true %}\n      {% if true %}\n   deep\n      {% endif %}\n   {% endif %}\nend",
]

# Templates that change lists and dicts in place. The Hugging Face libraries' sandbox
# (ImmutableSandboxedEnvironment) forbids this; Hearth allows it because many templates do it.
MUTATING = [
    "{% set x = [] %}{% set y = x %}{% do x.append(1) %}{{ y }}{{ x.append(2) }}{{ y | length }}",
    "{% set x = [1, 2, 3] %}{{ x.pop() }}{{ x.pop(0) }}{{ x }}",
    "{% set x = [1] %}{% do x.insert(0, 5) %}{% do x.insert(-1, 6) %}{% do x.insert(99, 7) %}{{ x }}",
    "{% set x = [1] %}{% do x.extend([2, 3]) %}{% do x.reverse() %}{{ x }}",
    "{% set x = {'a': 1} %}{% do x.update({'b': 2}, c=3) %}{{ x }}"
    "{{ x.pop('a') }}{{ x }}{{ x.pop('zz', 0) }}",
    "{% set x = {} %}{{ x.setdefault('a', 5) }}{{ x.setdefault('a', 6) }}{{ x }}",
    "{% set x = {'a': [1]} %}{% do x.a.append(2) %}{{ x }}{{ x.copy() }}",
    "{% set ns = namespace(l=[]) %}{% for x in l %}{% set _ = ns.l.append(x * 2) %}{% endfor %}{{ ns.l }}",
    "{% set x = [] %}{{ x.pop() }}",
    "{% set x = (1, 2) %}{{ x.append(3) }}",
    "{% set x = [1] %}{% set y = x %}{% set x = x + [2] %}{{ y }}{{ x }}",
    "{% set ns = namespace(l=[]) %}{% for x in l %}{% set ns.l = ns.l + [x] %}{% endfor %}{{ ns.l }}",
]

