#include "nimble/bindings/values/arrow_bridge.h"

#include "nimble/bindings/values/errors.h"

namespace py = pybind11;

namespace nimble {
namespace {

// Destructors for capsules of the PyCapsule protocol. They release structs that
// no consumer has taken.
template <class T>
void destroy(PyObject* capsule, const char* name) {
  auto* p = static_cast<T*>(PyCapsule_GetPointer(capsule, name));
  if (p == nullptr) {
    PyErr_Clear();
    return;
  }
  if (p->release != nullptr) p->release(p);
  delete p;
}
void destroy_schema(PyObject* c) { destroy<ArrowSchema>(c, "arrow_schema"); }
void destroy_array(PyObject* c) { destroy<ArrowArray>(c, "arrow_array"); }

template <class T>
py::object make_capsule(std::unique_ptr<T> p, const char* name,
                        PyCapsule_Destructor destructor) {
  PyObject* c = PyCapsule_New(p.get(), name, destructor);
  if (c == nullptr) throw py::error_already_set();
  p.release();
  return py::reinterpret_steal<py::object>(c);
}

template <class T>
T* pointer_of(const py::handle& capsule, const char* name) {
  void* p = PyCapsule_GetPointer(capsule.ptr(), name);
  if (p == nullptr) throw py::error_already_set();
  return static_cast<T*>(p);
}

}  // namespace

std::unique_ptr<ImportedArray> ImportedArray::from_python(
    const py::handle& object) {
  const py::tuple capsules = object.attr("__arrow_c_array__")();
  auto* schema =
      pointer_of<ArrowSchema>(py::object(capsules[0]), "arrow_schema");
  auto* array = pointer_of<ArrowArray>(py::object(capsules[1]), "arrow_array");
  auto out = std::make_unique<ImportedArray>();
  out->field_ = unwrap(Field::from_arrow(*schema));
  out->array_ = *array;
  array->release = nullptr;
  out->view_ = unwrap(ArrayView::open(out->field_, out->array_, ""));
  return out;
}

ImportedArray::~ImportedArray() {
  if (array_.release != nullptr) array_.release(&array_);
}

py::object schema_capsule(const Field& field) {
  auto s = std::make_unique<ArrowSchema>();
  export_schema(field, s.get());
  return make_capsule(std::move(s), "arrow_schema", destroy_schema);
}

py::tuple array_capsules(Column&& column) {
  const Field field = column.field();
  ArrowArray array{};
  check(std::move(column).export_array(&array));
  return array_capsules(field, &array);
}

py::tuple array_capsules(const Field& field, ArrowArray* array) {
  auto moved = std::make_unique<ArrowArray>(*array);
  array->release = nullptr;
  auto capsule = make_capsule(std::move(moved), "arrow_array", destroy_array);
  return py::make_tuple(schema_capsule(field), capsule);
}

}  // namespace nimble
