// What each bind_*.cpp offers to bindings.cpp.
#pragma once
#include <nanobind/nanobind.h>

void bind_automaton(nanobind::module_& module);
void bind_chunk_sinks(nanobind::module_& module);
void bind_combine(nanobind::module_& module);
void bind_counting(nanobind::module_& module);
void bind_encode(nanobind::module_& module);
void bind_merge(nanobind::module_& module);
void bind_verify(nanobind::module_& module);
void bind_specials(nanobind::module_& module);
