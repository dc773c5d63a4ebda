// ObjectRef<T>: the right to a value of type T that exists or will. Copies share one count of the
// object; the last one gone lets it go. May be passed, returned and stored inside other values. Any
// thread.
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

#include <mobula/detail/runtime.h>
#include <mobula/result.h>
#include <mobula/view.h>

namespace mobula {

template <class T>
class ObjectRef {
  static_assert(std::is_void_v<T> || std::is_same_v<T, std::remove_cvref_t<T>>,
                "mobula: ObjectRef<T> needs a value type or void");

 public:
  using value_type = T;

  // Refers to nothing.
  ObjectRef() = default;
  explicit ObjectRef(std::shared_ptr<const detail::Anchor> anchor) : anchor_(std::move(anchor)) {}

  bool empty() const { return anchor_ == nullptr; }
  explicit operator bool() const { return !empty(); }
  // 32 digits; empty for a ref to nothing.
  std::string id() const { return empty() ? std::string() : detail::hex(raw_id()); }

  // As mobula::get(*this).
  T get() const;

  // For the library.
  const std::shared_ptr<const detail::Anchor>& anchor() const { return anchor_; }
  detail::RawId raw_id() const { return empty() ? detail::RawId{} : anchor_->ref().id; }

  friend bool operator==(const ObjectRef& a, const ObjectRef& b) {
    return a.raw_id() == b.raw_id();
  }
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

// A ref inside a value: whether there is one, and which.
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
  // By name: T may be the very type that holds the ref.
  static constexpr std::uint64_t fingerprint(std::uint64_t state) {
    return mix(mix(state, "ref"), type_name<T>);
  }
};

// The values of the refs of one call to get.
// They go to `values`, which are as many.
MOBULA_API Done fetch(std::span<const std::shared_ptr<const Anchor>> anchors, const GetRequest& request,
                      std::span<StoredValue> values);
// As fetch, of the first refs, at least one: as many as fit into the node's store together. Returns how many.
MOBULA_API std::size_t fetch_some(std::span<const std::shared_ptr<const Anchor>> anchors, const GetRequest& request,
                                  std::span<StoredValue> values);

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

template <class T>
T ObjectRef<T>::get() const {
  return detail::decode_result<T>(detail::fetch_one(*this, {}));
}

}  // namespace mobula

template <class T>
struct std::hash<mobula::ObjectRef<T>> {
  std::size_t operator()(const mobula::ObjectRef<T>& ref) const {
    return static_cast<std::size_t>(ref.raw_id().high ^ ref.raw_id().low);
  }
};
