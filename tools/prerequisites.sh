#!/bin/sh
# What the first build needs from the system; what is missing is one line that names the Debian package.
#
#   tools/prerequisites.sh python [COMMAND]   prints the newest Python from 3.11 on that runs, or COMMAND if it will do
#   tools/prerequisites.sh compiler           fails unless there is a C++ compiler that works
#   tools/prerequisites.sh browser            installs Debian's chromium if there is no browser for the tests of the page
#   tools/prerequisites.sh nginx              installs Debian's nginx if there is none for the test of the server behind it
#
# Every candidate is run, since pyenv and the like have commands on the path that only print an error.

fail() {
    echo "trellis: $*" >&2
    exit 1
}

# "MINOR LACKS": the version after 3., and what the build would miss, if anything. Other Pythons print nothing.
probe='
import sys
if sys.version_info[0] == 3 and sys.version_info[1] >= 11 and sys.version_info[3] == "final":
    import importlib.util, os, sysconfig
    venv = all(importlib.util.find_spec(name) for name in ("venv", "ensurepip"))
    header = os.path.join(sysconfig.get_path("include"), "Python.h")
    print(sys.version_info[1], "venv" if not venv else "" if os.path.exists(header) else "dev")
'

find_python() {
    best=0 lacking=
    for candidate in $1; do
        command -v "$candidate" > /dev/null 2>&1 || continue
        found=$("$candidate" -c "$probe" 2> /dev/null) || continue
        minor=${found%% *} lacks=${found#* }
        [ -n "$minor" ] || continue
        if [ -n "$lacks" ]; then
            lacking=${lacking:-"$candidate cannot build Trellis: install python3.$minor-$lacks"}
        elif [ "$minor" -gt "$best" ]; then
            best=$minor chosen=$candidate
        fi
    done
    [ "$best" -gt 0 ] || fail "${lacking:-$2}"
    command -v "$chosen"
}

# python3.30, python3.29, ..., python3.11
numbered() {
    minor=30
    while [ "$minor" -ge 11 ]; do
        echo "python3.$minor"
        minor=$((minor - 1))
    done
}

# The command may have arguments, such as "ccache g++".
compiles() {
    # shellcheck disable=SC2086
    printf '#include <vector>\n' | $1 -std=c++17 -fsyntax-only -x c++ - > /dev/null 2>&1
}

find_compiler() {
    if [ -n "$CXX" ]; then
        compiles "$CXX" || fail "CXX=$CXX does not compile C++17: install g++, or unset CXX"
    else
        compiles c++ || compiles g++ || compiles clang++ ||
            fail "there is no C++ compiler (c++, g++ or clang++): install g++"
    fi
}

# Debian's packages, as root; the lists are fetched if they are missing or old.
install_packages() {
    { apt-get install -y -qq --no-install-recommends "$@" ||
        { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"; }
    } > /dev/null 2>&1 || fail "apt-get could not install $1"
}

find_browser() {
    for candidate in "$TRELLIS_CHROMIUM" chromium chromium-browser; do
        [ -n "$candidate" ] && command -v "$candidate" && return
    done
    [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null 2>&1 ||
        fail "there is no browser: install chromium, or name one in TRELLIS_CHROMIUM"
    install_packages chromium fonts-dejavu-core
    command -v chromium
}

find_nginx() {
    PATH=$PATH:/usr/sbin:/usr/local/sbin
    command -v nginx && return
    [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null 2>&1 || fail "there is no nginx: install nginx-light"
    install_packages nginx-light
    command -v nginx
}

case "$1 $2" in
    "python ") find_python "$(numbered) python3 python" \
        "there is no Python 3.11 or newer: install python3, python3-venv and python3-dev, or set PYTHON=..." ;;
    "python "*) find_python "$2" "PYTHON=$2 is not a Python 3.11 or newer that runs: install python3, or unset PYTHON" ;;
    "compiler ") find_compiler ;;
    "browser ") find_browser ;;
    "nginx ") find_nginx ;;
    *) fail "usage: tools/prerequisites.sh python [COMMAND] | compiler | browser | nginx" ;;
esac
