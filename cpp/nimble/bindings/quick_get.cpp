// File.get(key) without a Python frame. Two types implement it:
//
// * PointBase: a base class of File. It has a slot for a callable that looks up
//   one key.
// * quick_get: wraps the Python method `get`. A call with only a key uses the
//   slot. If the slot returns NotImplemented, the wrapper calls its attribute
//   `slow` with the same key. All other calls use the method.
#include "nimble/bindings/core_file.h"

#include <structmember.h>  // after Python.h

namespace py = pybind11;

namespace nimble {
namespace {

// ---------------------------------------------------------------- PointBase

struct PointBase {
  PyObject_HEAD PyObject* quick;  // a callable, None or null
};

PyTypeObject* point_base_type = nullptr;  // never freed

int point_base_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<PointBase*>(self)->quick);
  return 0;
}

int point_base_clear(PyObject* self) {
  Py_CLEAR(reinterpret_cast<PointBase*>(self)->quick);
  return 0;
}

void point_base_dealloc(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  point_base_clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef point_base_members[] = {
    {"_quick", T_OBJECT, offsetof(PointBase, quick), 0,
     "answers a key; None where there is nothing that does"},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot point_base_slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(&point_base_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&point_base_clear)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&point_base_dealloc)},
    {Py_tp_members, point_base_members},
    {0, nullptr}};

PyType_Spec point_base_spec = {
    "nimblepy._core.PointBase", sizeof(PointBase), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    point_base_slots};

// ---------------------------------------------------------------- quick_get

struct QuickGet {
  PyObject_HEAD vectorcallfunc call;
  PyObject* method;
  PyObject* dict;  // the method's name, doc and signature
};

// Returns a new reference: a key's __eq__ may close the file, and without a GIL
// another thread may close it at any time.
PyObject* quick_of(PyObject* point_base) {
  PyObject* quick = nullptr;
#if defined(Py_GIL_DISABLED)
  Py_BEGIN_CRITICAL_SECTION(point_base);
#endif
  quick = Py_XNewRef(reinterpret_cast<PointBase*>(point_base)->quick);
#if defined(Py_GIL_DISABLED)
  Py_END_CRITICAL_SECTION();
#endif
  return quick;
}

// Calls `slow` for a key that the slot does not handle, or the method if there
// is no `slow`.
PyObject* call_slow(const QuickGet* get, PyObject* const* args, size_t nargsf) {
  PyObject* slow = nullptr;
  if (get->dict != nullptr) {
    slow = PyDict_GetItemString(get->dict, "slow");  // borrowed
  }
  return PyObject_Vectorcall(slow != nullptr ? slow : get->method, args, nargsf,
                             nullptr);
}

PyObject* quick_get_call(PyObject* callable, PyObject* const* args,
                         size_t nargsf, PyObject* kwnames) {
  if (PyVectorcall_NARGS(nargsf) == 2 && kwnames == nullptr &&
      PyObject_TypeCheck(args[0], point_base_type)) {
    PyObject* const quick = quick_of(args[0]);
    if (quick != nullptr && quick != Py_None) {
      PyObject* const row = PyObject_CallOneArg(quick, args[1]);
      Py_DECREF(quick);
      if (row != Py_NotImplemented) return row;
      Py_DECREF(row);
      return call_slow(reinterpret_cast<QuickGet*>(callable), args, nargsf);
    } else {
      Py_XDECREF(quick);
    }
  }
  return PyObject_Vectorcall(reinterpret_cast<QuickGet*>(callable)->method,
                             args, nargsf, kwnames);
}

PyObject* quick_get_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject* method = nullptr;
  if (kwargs != nullptr ||
      !PyArg_UnpackTuple(args, "quick_get", 1, 1, &method)) {
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_TypeError, "quick_get(method)");
    return nullptr;
  }
  PyObject* const self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  auto* const made = reinterpret_cast<QuickGet*>(self);
  made->call = &quick_get_call;
  made->method = Py_NewRef(method);
  return self;
}

PyObject* quick_get_bind(PyObject* self, PyObject* object, PyObject*) {
  return object == nullptr ? Py_NewRef(self) : PyMethod_New(self, object);
}

int quick_get_traverse(PyObject* self, visitproc visit, void* arg) {
  auto* const q = reinterpret_cast<QuickGet*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(q->method);
  Py_VISIT(q->dict);
  return 0;
}

int quick_get_clear(PyObject* self) {
  auto* const q = reinterpret_cast<QuickGet*>(self);
  Py_CLEAR(q->method);
  Py_CLEAR(q->dict);
  return 0;
}

void quick_get_dealloc(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  quick_get_clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef quick_get_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(QuickGet, call), READONLY,
     nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(QuickGet, dict), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef quick_get_attributes[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr,
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot quick_get_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(&quick_get_new)},
    {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
    {Py_tp_descr_get, reinterpret_cast<void*>(&quick_get_bind)},
    {Py_tp_traverse, reinterpret_cast<void*>(&quick_get_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&quick_get_clear)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&quick_get_dealloc)},
    {Py_tp_members, quick_get_members},
    {Py_tp_getset, quick_get_attributes},
    {0, nullptr}};

PyType_Spec quick_get_spec = {"nimblepy._core.quick_get", sizeof(QuickGet), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                                  Py_TPFLAGS_HAVE_VECTORCALL |
                                  Py_TPFLAGS_METHOD_DESCRIPTOR,
                              quick_get_slots};

py::object type_of(PyType_Spec* spec) {
  py::object made = py::reinterpret_steal<py::object>(PyType_FromSpec(spec));
  if (!made) throw py::error_already_set();
  return made;
}

}  // namespace

void register_quick_get(py::module_& m) {
  py::object base = type_of(&point_base_spec);
  point_base_type = reinterpret_cast<PyTypeObject*>(base.inc_ref().ptr());
  m.add_object("PointBase", base);
  m.add_object("quick_get", type_of(&quick_get_spec));
}

}  // namespace nimble
