// Values of untyped calls that programs of all languages exchange: one msgpack value of nil,
// boolean, int64, uint64, float64, text, bytes, list, dictionary with text keys, ref, tensor, or
// handle of an actor. For a callee in C++, structs, tuples, sets, and other maps are lists, empty
// optionals, refs, and handles nil, and times seconds. A ref goes to a parameter ObjectRef<T>. Its
// object has the format of its producer: mobula::get reads typed ones, dynamic::get neutral ones. A
// handle goes to a parameter ActorHandle<C>; a call of a method that its actor lacks is an error.
// Thread: any.
// Errors: SerializationError for corrupt bytes, other msgpack types, and more than 256 levels.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <mobula/dynamic.h>
#include <mobula/tensor.h>

namespace mobula::dynamic {

// The format of a Payload whose body is one neutral value.
inline constexpr std::string_view neutral_format = "neutral/1";

class NeutralValue;
// Bytes.
using Bytes = std::vector<std::byte>;
// A ref to an object. Refs are equal if they refer to one object.
class MOBULA_API Ref {
 public:
  // Wraps a ref. An empty one is written as nil.
  explicit Ref(AnyRef ref) : ref_(std::move(ref)) {}

  // Returns the ref.
  const AnyRef& get() const { return ref_; }
  // Compares the objects.
  bool operator==(const Ref& other) const;

 private:
  AnyRef ref_;
};
// A handle of an actor. Handles are equal if they refer to one actor.
class MOBULA_API Handle {
 public:
  // Wraps a handle. An empty one is written as nil.
  explicit Handle(AnyActor actor) : actor_(std::move(actor)) {}

  // Returns the handle.
  const AnyActor& get() const { return actor_; }
  // Compares the actors.
  bool operator==(const Handle& other) const;

 private:
  AnyActor actor_;
};
// A tensor. Tensors are equal if their dtypes, shapes, and bytes are. To compare them, elements of
// other devices are copied to host memory.
class MOBULA_API NeutralTensor {
 public:
  // Wraps a tensor. The elements are not copied.
  explicit NeutralTensor(Tensor tensor) : tensor_(std::move(tensor)) {}

  // Returns the tensor.
  const Tensor& get() const { return tensor_; }
  // Compares dtypes, shapes, and bytes.
  bool operator==(const NeutralTensor& other) const;

 private:
  Tensor tensor_;
};
// Values in order.
using List = std::vector<NeutralValue>;
// Values by name.
using Dictionary = std::map<std::string, NeutralValue>;

// A neutral value. Integers from 2^63 are unsigned, all others signed.
class NeutralValue {
 public:
  // The types that a value can have; std::monostate is nil.
  using Content = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double,
                               std::string, Bytes, List, Dictionary, Ref, NeutralTensor, Handle>;

  // Creates nil.
  NeutralValue() = default;
  // Creates a boolean.
  NeutralValue(bool value) : content_(value) {}  // NOLINT: implicit
  // Creates a float64.
  NeutralValue(double value) : content_(value) {}  // NOLINT: implicit
  // Creates text in UTF-8.
  NeutralValue(std::string value) : content_(std::move(value)) {}  // NOLINT: implicit
  // Creates text in UTF-8.
  NeutralValue(const char* value) : content_(std::string(value)) {}  // NOLINT: implicit
  // Creates bytes.
  NeutralValue(Bytes value) : content_(std::move(value)) {}  // NOLINT: implicit
  // Creates a list.
  NeutralValue(List value) : content_(std::move(value)) {}  // NOLINT: implicit
  // Creates a dictionary.
  NeutralValue(Dictionary value) : content_(std::move(value)) {}  // NOLINT: implicit
  // Creates a ref, which the value counts.
  NeutralValue(AnyRef value) : content_(Ref(std::move(value))) {}  // NOLINT: implicit
  // Creates a tensor, whose elements are not copied.
  NeutralValue(Tensor value) : content_(NeutralTensor(std::move(value))) {}  // NOLINT: implicit
  // Creates a handle, which the value counts.
  NeutralValue(AnyActor value) : content_(Handle(std::move(value))) {}  // NOLINT: implicit
  // Creates an integer.
  template <std::integral Integer>
  NeutralValue(Integer value) {  // NOLINT: implicit
    if (std::in_range<std::int64_t>(value))
      content_ = static_cast<std::int64_t>(value);
    else
      content_ = static_cast<std::uint64_t>(value);
  }

  // Returns the value with its type.
  const Content& content() const { return content_; }
  // Compares types and values: 1 and 1.0 differ.
  friend bool operator==(const NeutralValue&, const NeutralValue&) = default;

 private:
  Content content_;
};

// Returns a payload with the value. It does not refer to `value`, but to the elements of its
// tensors.
MOBULA_API Payload neutral_payload(const NeutralValue& value);
// Returns the value of a stored payload. SerializationError for another format.
MOBULA_API NeutralValue neutral_value(const StoredPayload& stored);

}  // namespace mobula::dynamic
