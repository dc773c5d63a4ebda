#include "neutral_values.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace nb = nanobind;
namespace md = mobula::dynamic;

namespace {

// Deeper values are rejected by neutral_payload too, but a cyclic list has no end.
constexpr int deepest = 256;

// Position of a part in a value.
struct Path {
  const Path* above = nullptr;
  std::string step = {};
  int depth = 0;

  Path below(std::string next) const { return {this, std::move(next), depth + 1}; }
  std::string text() const { return (above == nullptr ? "" : above->text()) + step; }
  [[noreturn]] void refuse(const std::string& why) const {
    const std::string at = text();
    throw nb::type_error(((at.empty() ? "" : "at " + at + ": ") + why).c_str());
  }
};

md::NeutralValue neutral_of(nb::handle object, const Path& path);

md::NeutralValue integer_of(nb::handle object, const Path& path) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
  if (overflow == 0) return std::int64_t{number};
  const unsigned long long wide = overflow > 0 ? PyLong_AsUnsignedLongLong(object.ptr()) : 0;
  if (wide != 0 && PyErr_Occurred() == nullptr) return std::uint64_t{wide};
  PyErr_Clear();
  path.refuse("an int outside of -2^63 to 2^64-1 has no neutral form");
}

md::NeutralValue text_of(nb::handle object, const Path& path) {
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
  if (text != nullptr) return std::string(text, static_cast<std::size_t>(size));
  PyErr_Clear();
  path.refuse("a str with surrogates has no neutral form");
}

md::Bytes bytes_of(nb::handle object) {
  Py_buffer view;
  if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_SIMPLE) != 0) throw nb::python_error();
  const auto* const first = static_cast<const std::byte*>(view.buf);
  md::Bytes bytes(first, first + view.len);
  PyBuffer_Release(&view);
  return bytes;
}

md::NeutralValue list_of(nb::handle object, const Path& path) {
  md::List list;
  for (nb::handle each : object)
    list.push_back(neutral_of(each, path.below("[" + std::to_string(list.size()) + "]")));
  return list;
}

md::NeutralValue dictionary_of(nb::handle object, const Path& path) {
  md::Dictionary dictionary;
  for (auto [key, value] : nb::borrow<nb::dict>(object)) {
    const std::string shown = nb::repr(key).c_str();
    const Path at = path.below("[" + shown + "]");
    if (!nb::isinstance<nb::str>(key)) at.refuse("a key that is not text has no neutral form");
    dictionary.emplace(std::get<std::string>(text_of(key, at).content()), neutral_of(value, at));
  }
  return dictionary;
}

md::NeutralValue neutral_of(nb::handle object, const Path& path) {
  if (path.depth > deepest) path.refuse("more than 256 levels have no neutral form");
  if (object.is_none()) return {};
  if (nb::isinstance<nb::bool_>(object)) return nb::cast<bool>(object);
  if (nb::isinstance<nb::int_>(object)) return integer_of(object, path);
  if (nb::isinstance<nb::float_>(object)) return PyFloat_AsDouble(object.ptr());
  if (nb::isinstance<nb::str>(object)) return text_of(object, path);
  if (nb::isinstance<nb::bytes>(object) || PyByteArray_Check(object.ptr()) ||
      PyMemoryView_Check(object.ptr()))
    return bytes_of(object);
  if (nb::isinstance<nb::list>(object) || nb::isinstance<nb::tuple>(object))
    return list_of(object, path);
  if (nb::isinstance<nb::dict>(object)) return dictionary_of(object, path);
  if (nb::isinstance<mobula::AnyRef>(object)) return nb::cast<mobula::AnyRef&>(object);
  if (nb::isinstance<mobula::Tensor>(object)) return nb::cast<mobula::Tensor&>(object);
  if (nb::isinstance<mobula::AnyActor>(object)) return nb::cast<mobula::AnyActor&>(object);
  path.refuse("a " + std::string(nb::type_name(object.type()).c_str()) + " has no neutral form");
}

struct ToPython {
  nb::object operator()(std::monostate) const { return nb::none(); }
  nb::object operator()(const std::string& value) const {
    return nb::steal(
        PyUnicode_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size())));
  }
  nb::object operator()(const md::Bytes& value) const {
    return nb::bytes(value.data(), value.size());
  }
  nb::object operator()(const md::List& value) const {
    nb::list list;
    for (const auto& each : value) list.append(python_of(each));
    return list;
  }
  nb::object operator()(const md::Dictionary& value) const {
    nb::dict dictionary;
    for (const auto& [key, each] : value) dictionary[(*this)(key)] = python_of(each);
    return dictionary;
  }
  nb::object operator()(const md::Ref& value) const { return nb::cast(value.get()); }
  nb::object operator()(const md::NeutralTensor& value) const { return nb::cast(value.get()); }
  nb::object operator()(const md::Handle& value) const { return nb::cast(value.get()); }
  template <class Number>
  nb::object operator()(Number value) const {
    return nb::cast(value);
  }
};

mobula::Tensor make_tensor(const std::string& dtype, const std::vector<std::int64_t>& shape,
                           nb::bytes elements) {
  for (int i = 0; i <= static_cast<int>(mobula::DType::float8_e8m0); ++i) {
    const auto each = static_cast<mobula::DType>(i);
    if (mobula::dtype_name(each) != dtype) continue;
    auto tensor = mobula::Tensor::empty(shape, each);
    const auto into = tensor.mutable_view<std::byte>();
    if (into.size() != elements.size()) throw nb::value_error("another number of bytes");
    std::memcpy(into.data(), elements.data(), into.size());
    return tensor;
  }
  throw nb::value_error("no dtype has this name");
}

nb::bytes elements_of(const mobula::Tensor& tensor) {
  const mobula::Tensor in_order = tensor.to(mobula::Device()).contiguous();
  const auto bytes = in_order.view<std::byte>();
  return nb::bytes(bytes.data(), bytes.size());
}

}  // namespace

nb::object python_of(const md::NeutralValue& value) {
  return std::visit(ToPython(), value.content());
}

void bind_neutral_values(nb::module_& m) {
  nb::class_<mobula::Tensor>(m, "Tensor")
      .def_static("make", &make_tensor)
      .def_prop_ro(
          "dtype",
          [](const mobula::Tensor& t) { return std::string(mobula::dtype_name(t.dtype())); })
      .def_prop_ro("shape", [](const mobula::Tensor& t) { return t.shape(); })
      .def_prop_ro("elements", &elements_of);
  nb::class_<Neutral>(m, "Neutral")
      .def(
          "__init__",
          [](Neutral* at, nb::handle object) { new (at) Neutral{neutral_of(object, {})}; },
          nb::arg().none())
      .def("value", [](const Neutral& neutral) { return python_of(neutral.value); });
}
