# SPDX-License-Identifier: Apache-2.0
"""Checks C files against the rules of this house; prints FILE:LINE: fault."""
import re
import sys

MAX_FILE, MAX_FUNCTION = 1000, 80

# folder -> the folders it may include from, itself aside
MAY_INCLUDE = {
    "core/base": [],
    "core/sched": ["core/base"],
    "core/hlo": ["core/base"],
    "core/device": ["core/base", "core/hlo"],
    "core/driver": ["core/base", "core/hlo", "core/device"],
    "core/pod": ["core/base", "core/sched", "core/hlo", "core/device",
                 "core/driver"],
    "proto": ["core"],
    "api": ["core"],
    "server": ["core", "proto", "api", "web"],
    "tests": ["core", "proto", "api", "server"],
}
# header of a library -> the folders that may use it
LIBRARY = {
    "microhttpd.h": ["api", "tests"],
    "jansson.h": ["api", "tests"],
    "grpc/": ["proto", "tests"],
    "cblas.h": ["core/device"],
    "nettle/": ["api", "tests"],
}
# pattern -> (where it is forbidden, where it is allowed all the same, why)
FORBIDDEN = [
    (r"(?<![\w>.])(malloc|calloc|realloc|strdup|strndup|free)\(", ["core/"],
     ["core/base/mem.c"], "core allocates through core/base/mem.h"),
    (r"\b(sprintf|vsprintf|strcpy|strcat|gets|atoi|atol|atof|strtok)\(",
     ["core/", "api/", "proto/", "server/"], [], "has no bound or no error"),
    (r"\bvolatile\b", [""], ["tests/"], "is no synchronisation"),
    (r"\b(usleep|sleep|nanosleep)\(", ["core/", "api/", "proto/", "server/"],
     [], "wait on a condition"),
    (r"\b(time|gettimeofday|clock_gettime)\(", ["core/", "api/"],
     ["core/base/"], "read the clock that was handed in"),
    (r"\bassert\(0\)|\bassert\(false\)", [""], [], "use abort with a reason"),
    (r"\b(TODO|FIXME|XXX)\b", [""], [], "finish it, or file an issue"),
    (r"[ \t]+$", [""], [], "blank at the end of a line"),
    (r"typedef (struct|enum|union)\b(?!.*\()", [""], [],
     "no typedef hides a struct"),
]


def blank(text):
    """Comments, strings and characters as blanks; lines are kept."""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
                  lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.S)


def room(path):
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "core" else parts[0]


def allowed(path, rooms):
    return any(path == r or path.startswith(r.rstrip("/") + "/") for r in rooms)


def includes(path, text):
    here = room(path)
    for number, line in enumerate(text.split("\n"), 1):
        found = re.match(r'\s*#\s*include\s*[<"]([^">]+)[">]', line)
        if not found:
            continue
        target = found.group(1)
        top = target.split("/")[0]
        if top in ("core", "proto", "api", "server", "web", "tests"):
            if room(target) != here and here in MAY_INCLUDE and \
                    not allowed(room(target), MAY_INCLUDE[here]):
                yield number, f"{here} may not include {target}"
        for header, rooms in LIBRARY.items():
            if target.startswith(header) and not allowed(here, rooms):
                yield number, f"{here} may not include {target}"


def functions(code):
    """(line, name, length) of each function; a brace in column 0 begins it."""
    lines = code.split("\n")
    start = None
    for i, line in enumerate(lines):
        if line == "{":
            start = i
        elif line == "}" and start is not None:
            head = start
            while head > 0 and not re.match(r"[A-Za-z_]", lines[head]):
                head -= 1
            name = re.search(r"(\w+)\s*\(", " ".join(lines[head:start]))
            yield head + 1, name.group(1) if name else "?", i - head + 1
            start = None


def headings(text):
    """A heading between rulers is one line, which formatting may have cut."""
    folded = re.compile(r"^// -{10,}[^\n]*\n// [a-z0-9][^\n]{0,30}\n(?!//)", re.M)
    for found in folded.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, "heading cut in two lines"


def rules(path, text):
    code = blank(text)
    for pattern, where, but, why in FORBIDDEN:
        if not any(path.startswith(w) for w in where) or \
                any(path.startswith(b) for b in but):
            continue
        searched = text if "TODO" in pattern or pattern.startswith("[ ") else code
        for number, line in enumerate(searched.split("\n"), 1):
            # A struct's function pointer or member of that name is no call.
            found = re.search(pattern, line)
            if found and not (pattern.startswith("[ ") and searched is code):
                yield number, f"'{found.group(0).strip()}': {why}"
    yield from includes(path, text)
    yield from headings(text)
    limit = MAX_FILE if not path.startswith("tests/") else 10 * MAX_FILE
    if text.count("\n") > limit:
        yield 1, f"{text.count(chr(10))} lines, at most {limit}"
    if path.startswith("tests/"):
        return
    for number, name, length in functions(code):
        if length > MAX_FUNCTION:
            yield number, f"{name} has {length} lines, at most {MAX_FUNCTION}"


def main():
    faults = 0
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for number, fault in sorted(set(rules(path, text))):
            print(f"{path}:{number}: {fault}")
            faults += 1
    return 1 if faults else 0


sys.exit(main())
