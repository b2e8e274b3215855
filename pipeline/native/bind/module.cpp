// The Python module bpe_pipeline._core: a table of contents. The folders of the core know nothing of Python; a file of this
// folder shows each of them to it.
#include <nanobind/nanobind.h>

void bind_text(nanobind::module_& module);
void bind_count(nanobind::module_& module);
void bind_merge(nanobind::module_& module);
void bind_parity(nanobind::module_& module);
void bind_encode(nanobind::module_& module);
void bind_documents(nanobind::module_& module);

NB_MODULE(_core, module) {
  // A traceback that lives until the interpreter ends may hold our objects; that leak is not worth a user's screen.
  nanobind::set_leak_warnings(false);
  module.doc() = "Native core of bpe-pipeline. Private: use the functions of the package.";
  bind_text(module);
  bind_count(module);
  bind_merge(module);
  bind_parity(module);
  bind_encode(module);
  bind_documents(module);
}
