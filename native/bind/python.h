// nanobind, after what it takes for granted: Python's headers do not include stdio for the limited API.
#pragma once

#include <cstdio>

#include <nanobind/nanobind.h>
