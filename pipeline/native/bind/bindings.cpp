// The Python module pipeline._core: a table of contents. Each room of the core has a header without Python
// in it and a bind_*.cpp that shows it to Python.
#include <nanobind/nanobind.h>

#include "bind/bindings.hpp"

NB_MODULE(_core, module) {
  // A traceback that lives until the interpreter ends may hold our objects; that is no leak worth a user's screen.
  nanobind::set_leak_warnings(false);
  module.doc() = "Native core of bpe-pipeline. Private: use the functions of the package.";
  bind_automaton(module);
  bind_specials(module);
  bind_counting(module);
  bind_combine(module);
  bind_encode(module);
  bind_chunk_sinks(module);
  bind_merge(module);
  bind_verify(module);
}
