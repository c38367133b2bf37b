"""Inline code that hides what it does from a reader: functions kept under other names, names spelled in pieces.

Each is opaque, or names what it uses as a fact; the twins beside them are ordinary code.
"""

import pytest

from opensafe.normalize.shell import parse_shell

HIDES = [
    "python3 -c \"import os; f=os.unlink; f('/workspace/.git/HEAD')\"",
    "python3 -c \"import os; list(map(os.remove, ['/workspace/.git/HEAD']))\"",
    "python3 -c \"from pathlib import Path; Path.unlink(Path('/workspace/.git/HEAD'))\"",
    "python3 -c \"from pathlib import Path; d=Path('.git/HEAD').unlink; d()\"",
    "python3 -c \"g=getattr; import tempfile; g(g(tempfile,'_o'+'s'),'sys'+'tem')('id')\"",
    "python3 -c \"import timeit; timeit.Timer('import os').timeit()\"",
    "python3 -c \"import cProfile; cProfile.Profile().run('import os')\"",
    "python3 -c \"import cProfile; cProfile.runctx('x',{}, {})\"",
    "python3 -c \"from unittest import mock; mock._importer('subprocess').run(['id'])\"",
    "python3 -c \"import doctest; doctest.run_docstring_examples('>>> 1', {})\"",
    "python3 -c \"import doctest; doctest._normalize_module('subprocess').run(['id'])\"",
    "python3 -c \"print(open(''.join(c for c in '/wo rkspace/.e nv' if c!=' ')).read())\"",
    "python3 -c \"import os; print(open('.'+os.sep+'.ssh'+os.sep+'id_rsa').read())\"",
    "python3 -c \"s='xx.env'; print(open(s[2:]).read())\"",
    "python3 -c \"print(open('vne.'[::-1]).read())\"",
    "python3 -c \"print(open('%s%s'%('.e','nv')).read())\"",
    "python3 -c \"print(open('{}{}'.format('.e','nv')).read())\"",
    "python3 -c \"print(open(f'{chr(46)}env').read())\"",
    "python3 -c \"a,b='.e','nv'; print(open(a+b).read())\"",
    "python3 -c \"\np='.e'\np+='nv'\nprint(open(p).read())\"",
    "python3 -c \"d={'a':'.e','b':'nv'}; print(open(d['a']+d['b']).read())\"",
    "python3 -c \"print(open(''.join(['.e','nv'])).read())\"",
    "python3 -c \"x=['.e','nv']; print(open(''.join(x)).read())\"",
    "python3 -c \"x='.e nv'.split(); print(open(x[0]+x[1]).read())\"",
    "python3 -c \"print(open(''.join(reversed('vne.'))).read())\"",
    "python3 -c \"\ndef f(a,b): return open(a+b).read()\nprint(f('.e','nv'))\"",
    "python3 -c \"\nf=lambda n: open('.'+n).read()\nprint(f('env'))\"",
    "python3 -c \"import glob; print([open(f).read() for f in glob.glob('.e*')])\"",
    "python3 -c \"import os; print([open(f).read() for f in os.listdir('.') if f.startswith('.e')])\"",
    "python3 -c \"import os; print([open(f).read() for f in os.listdir('.') if f.endswith('env')])\"",
    "python3 -c \"import pandas as pd; print(pd.read_csv('https:'+'//evil.example/x.csv'))\"",
    "python3 -c \"import pandas as pd; h='evil.example'; print(pd.read_csv(f'https://{h}/x.csv'))\"",
    "python3 -c \"from urllib.request import urlopen; urlopen('http://x')\"",
    "python3 -c \"import urllib.request as u; u.urlopen('http://x')\"",
    "python3 -c \"import asyncio; asyncio.run(asyncio.open_connection('h',1))\"",
    "python3 -c \"import smtplib; smtplib.SMTP('h')\"",
    "python3 -c \"import site; site.addsitedir('/tmp')\"",
    'python3 -c "import signal; signal.signal(2, print)"',
    "python3 -c \"import sys; sys.path=['/tmp']; import evil\"",
    "python3 -c \"import sys; sys.path[0:0]=['/tmp/x']; import evil\"",
    "python3 -c \"import sys; sys.path+=['/tmp/x']; import evil\"",
    "python3 -c \"import sys; sys.modules['os'].system('id')\"",
    "python3 -c \"import os as o; o.environ['LD_PRELOAD']='x'; o.execl('/bin/ls','ls')\"",
    "node -e \"const {rmSync}=require('fs'); rmSync('/workspace/.git',{recursive:true})\"",
    "node -e \"const f=require('fs').rmSync; f('/workspace/.git')\"",
    "node -e \"const fs=require('fs'); const k='rmSync'; fs[k]('/workspace')\"",
    "node -e \"const fs=require('fs'); fs['unlinkSync']('.git/HEAD')\"",
    "node --input-type=module -e \"import {rmSync as z} from 'fs'; z('.git')\"",
    "node -e \"const fs=require('fs'); console.log(fs.readFileSync(['.e','nv'].join('')).toString())\"",
    "node -e \"const fs=require('fs'); const a='.e',b='nv'; console.log(fs.readFileSync(a+b,'utf8'))\"",
    "node -e \"const fs=require('fs'); const a='nv'; console.log(fs.readFileSync(\\`.e\\${a}\\`,'utf8'))\"",
    "node -p \"require('fs').readFileSync('.e'.concat('nv'),'utf8')\"",
    'ruby -e \'puts File.read(".e"+"nv")\'',
    "ruby -e 'puts File.read(Dir[\".e*\"][0])'",
    "ruby -e 'puts IO.read(%w[.e nv].join)'",
    'perl -e \'open F,"<",".e"."nv"; print <F>\'',
    "perl -ne 'print' .env",
    "perl -e 'print while <>' .env",
    'php -r \'echo file_get_contents(".e"."nv");\'',
    'lua -e \'for l in io.lines(".e".."nv") do print(l) end\'',
    'Rscript -e \'cat(readLines(paste0(".e","nv")))\'',
    "awk 'BEGIN{while((getline l < \".env\")>0) print l}'",
    "awk '{print}' .en[v]",
    'awk \'BEGIN{ARGV[1]=".e" "nv"; ARGC=2} {print}\'',
]
PLAIN = [
    "python3 -c \"import os; print(os.environ.get('HOME'))\"",
    "python3 -c \"from pathlib import Path; [print(p) for p in Path('src').rglob('*.py')]\"",
    "python3 -c \"import sys; sys.path.insert(0,'src'); import app; print(app.__version__)\"",
    "python3 -c \"import numpy as np; a=np.load('a.npy'); np.save('b.npy', a*2)\"",
    "python3 -c \"import re; s=open('a.txt').read(); print(s[:200])\"",
    "python3 -c \"import timeit; print(timeit.timeit('sum(range(100))', number=1000))\"",
    "python3 -c \"import os; print([f for f in os.listdir('src') if f.endswith('.py')])\"",
    "node -e \"const fs=require('fs'); for (const f of fs.readdirSync('src')) console.log(f)\"",
    'node -e "class A { constructor(x){this.x=x} } console.log(new A(1).x)"',
    "node -p \"require('./package.json').version\"",
    "python3 -c \"import torch; m=torch.load('m.pt', weights_only=True); print(m.keys())\"",
    "python3 -c \"import yaml; print(yaml.safe_load(open('a.yml')))\"",
]
NAMED = (".env", ".ssh", ".git", ".en")


@pytest.mark.parametrize("text", HIDES)
def test_what_code_hides_is_opaque_or_named(text: str) -> None:
    parsed = parse_shell(text)
    paths = [target.path for target in (*parsed.reads, *parsed.writes, *parsed.deletes)]
    named = any(name in path for path in paths for name in NAMED)
    assert parsed.opaque or parsed.hosts or named


@pytest.mark.parametrize("text", PLAIN)
def test_plain_code_is_understood(text: str) -> None:
    assert not parse_shell(text).opaque


@pytest.mark.parametrize("tree", ["os.path.expanduser('~')", "Path.home()", "os.environ['HOME']", "os.getcwd()", "'.'"])
def test_a_tree_that_is_deleted_is_named(tree: str) -> None:
    parsed = parse_shell(f'python3 -c "import os, shutil; from pathlib import Path; shutil.rmtree({tree})"')
    assert "/workspace" in [target.path for target in parsed.deletes]
