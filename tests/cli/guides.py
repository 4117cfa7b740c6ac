"""guides.py MOEFOLD PAGE FOLDER - runs the commands of docs/GUIDES.md and looks for what stands beside each.

A row of a table is | number | statement | `command` | `printed`<br>`printed` |. In a phrase N is a number, N(a to b)
one in that range, `...` any text; blanks stand for any number of blanks. A phrase is looked for in one line.
"""
import re
import shlex
import subprocess
import sys

moefold, page, folder = sys.argv[1:]
NUMBER = r'-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?'
TOKEN = re.compile(r'N\((?P<low>[\d.]+) to (?P<high>[\d.]+)\)|(?P<any>(?<![A-Za-z])N(?![A-Za-z]))|\.\.\.|\s+|.')


def pattern(phrase):
    """A regular expression, and the ranges of its groups."""
    out, ranges = '', []
    for token in TOKEN.finditer(phrase):
        text = token.group()
        if token['low']:
            out += f'({NUMBER})'
            ranges.append((float(token['low']), float(token['high'])))
        elif token['any']:
            out += NUMBER
        elif text == '...':
            out += '.*?'
        elif text.isspace():
            out += r'\s+'
        else:
            out += re.escape(text)
    return re.compile(out.replace(r'\s+.*?\s+', r'\s.*?')), ranges


def stands(phrase, text):
    expression, ranges = pattern(phrase)
    for line in text.split('\n'):
        for found in expression.finditer(line):
            figures = [float(g.replace(',', '')) for g in found.groups()]
            if all(low <= x <= high for x, (low, high) in zip(figures, ranges)):
                return True
    return False


ran = {}


def output(command):
    if command not in ran:
        words = [w.replace('$DIR', folder) for w in shlex.split(command)]
        done = subprocess.run([moefold, *words], capture_output=True, text=True, timeout=120)
        ran[command] = done.stdout + done.stderr
        if done.returncode not in (0, 1):
            ran[command] += f'\nexit code {done.returncode}'
    return ran[command]


rows, bad = 0, 0
for line in open(page, encoding='utf-8'):
    if not re.match(r'\| [A-Z]\d+ \|', line):
        continue
    number, statement, ask, printed = [c.strip() for c in line.strip().strip('|').split(' | ')]
    rows += 1
    text = output(ask.strip('`'))
    missing = [p for p in (x.strip('`') for x in printed.split('<br>')) if not stands(p, text)]
    if missing:
        bad += 1
        print(f'not ok guides_{number}: {missing} is not printed by: moefold {ask}')
        for said in text.split('\n')[:6]:
            print('    ' + said[:160])
    else:
        print(f'ok guides_{number}')
# The page cannot lose its rows unseen.
print('ok guides_are_all_there' if rows >= 90 else f'not ok guides_are_all_there: {rows} rows')
sys.exit(1 if bad or rows < 90 else 0)
