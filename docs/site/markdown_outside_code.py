"""Changes a page's text, but not its code: fenced blocks and spans in backticks stay as they are."""
import re

CODE = re.compile(r"(^ *(```+|~~~+).*?^ *\2 *$|(?<!`)(`+)(?!`).+?(?<!`)\3(?!`))", re.MULTILINE | re.DOTALL)


def outside_code(markdown, change):
    kept = []

    def keep(match):
        kept.append(match.group(0))
        return f"\x02{len(kept) - 1}\x03"

    changed = change(CODE.sub(keep, markdown))
    return re.sub("\x02(\\d+)\x03", lambda match: kept[int(match.group(1))], changed)
