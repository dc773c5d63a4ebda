// `ObjectRef<T>`: a reference-counted future for a value of type T.
// Thread: any.
// Owner: all copies in the cluster share one count. The last release frees the object.
#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <mobula/detail/call_site.h>
#include <mobula/detail/runtime.h>
#include <mobula/result.h>
#include <mobula/view.h>

namespace mobula {

class Subscription;

// A future for a value of type T. Refs can be copied, passed, returned, and stored inside other
// values.
template <class T>
class ObjectRef {
  static_assert(std::is_void_v<T> || std::is_same_v<T, std::remove_cvref_t<T>>,
                "mobula: ObjectRef<T> needs a value type or void");

 public:
  // The type of the value.
  using value_type = T;

  // Creates a ref that refers to no object.
  ObjectRef() = default;
  // For the library.
  explicit ObjectRef(std::shared_ptr<const detail::Anchor> anchor) : anchor_(std::move(anchor)) {}

  // Reports whether the ref refers to no object.
  bool empty() const { return anchor_ == nullptr; }
  // Reports whether the ref refers to an object.
  explicit operator bool() const { return !empty(); }
  // Returns the object's id: 32 hexadecimal digits, or an empty string if the ref is empty.
  std::string id() const { return empty() ? std::string() : detail::hex(raw_id()); }

  // Waits for the value and returns it, as `mobula::get(*this)` does.
  T get() const;
  // Calls `f(ref)` once, when the ref holds a value or an error, unless the returned subscription
  // ends before. on_ready.h states what `f` may do.
  template <class F>
  Subscription then(F f, detail::CallSite site = detail::CallSite::here()) const;

  // For the library.
  const std::shared_ptr<const detail::Anchor>& anchor() const { return anchor_; }
  // For the library.
  detail::RawId raw_id() const { return empty() ? detail::RawId{} : anchor_->ref().id; }

  // Compares object ids.
  friend bool operator==(const ObjectRef& a, const ObjectRef& b) {
    return a.raw_id() == b.raw_id();
  }
  // Orders refs by object id.
  friend auto operator<=>(const ObjectRef& a, const ObjectRef& b) {
    return a.raw_id() <=> b.raw_id();
  }

 private:
  std::shared_ptr<const detail::Anchor> anchor_;
};

namespace detail {

template <class T>
inline constexpr bool is_ref = false;
template <class T>
inline constexpr bool is_ref<ObjectRef<T>> = true;

// Writes a flag and, for a ref that is not empty, its id.
template <class RefOrHandle, RefKind kind>
struct AnchorCodec {
  static void write(Writer& out, const RefOrHandle& ref) {
    out.write(!ref.empty());
    if (!ref.empty()) out.write_ref(ref.anchor()->ref());
  }
  static RefOrHandle read(Reader& in) {
    if (!in.read<bool>()) return RefOrHandle();
    return RefOrHandle(Anchor::retain({kind, in.read_ref(kind)}));
  }
};

template <class T>
struct OwnCodec<ObjectRef<T>> : AnchorCodec<ObjectRef<T>, RefKind::object> {
  static constexpr bool supported() { return true; }
  // Uses the name of T, because T may itself contain the ref.
  static constexpr std::uint64_t fingerprint(std::uint64_t state) {
    return mix_name(mix(state, "ref"), type_name<T>);
  }
};

// Fetches the values of the refs of one `get`. `values` has one element per ref.
MOBULA_API Done fetch(std::span<const std::shared_ptr<const Anchor>> anchors,
                      const GetRequest& request, std::span<StoredValue> values);
// Fetches the values of the first refs, as many as fit into the node's store together, at least
// one. Returns their number.
MOBULA_API std::size_t fetch_some(std::span<const std::shared_ptr<const Anchor>> anchors,
                                  const GetRequest& request, std::span<StoredValue> values);

template <class T>
T decode_result(const StoredValue& stored) {
  if constexpr (std::is_void_v<T>)
    static_cast<void>(decode<Nothing>(stored));
  else
    return decode<T>(stored);
}

template <class T>
StoredValue fetch_one(const ObjectRef<T>& ref, const GetRequest& request) {
  StoredValue value;
  require(fetch({&ref.anchor(), 1}, request, {&value, 1}));
  return value;
}

}  // namespace detail

// Waits for the value and returns it.
template <class T>
T ObjectRef<T>::get() const {
  return detail::decode_result<T>(detail::fetch_one(*this, {}));
}

}  // namespace mobula

// Hashes a ref by its object id.
template <class T>
struct std::hash<mobula::ObjectRef<T>> {
  // Returns the hash of the object id.
  std::size_t operator()(const mobula::ObjectRef<T>& ref) const {
    return static_cast<std::size_t>(ref.raw_id().high ^ ref.raw_id().low);
  }
};
