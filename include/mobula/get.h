// Values of refs, and refs of values: `get`, `try_get`, `get_view`, `wait`, `put`, and `cancel`.
// Thread: any.
// Errors: the error that took the place of the value (see errors.h), or `GetTimeoutError`.
#pragma once

#include <chrono>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <mobula/object_ref.h>
#include <mobula/options.h>

namespace mobula {

// Waits for the value and returns it. Throws the error that took its place, or `GetTimeoutError`.
template <class T>
T get(const ObjectRef<T>& ref, const GetOptions& options) {
  return detail::decode_result<T>(detail::fetch_one(ref, detail::get_request(options)));
}

// Waits for the value without a timeout and returns it.
template <class T>
T get(const ObjectRef<T>& ref) {
  return ref.get();
}

// Waits at most `timeout` for the value and returns it.
template <class T>
T get(const ObjectRef<T>& ref, Duration timeout) {
  return get(ref, GetOptions{.timeout = timeout});
}

// Returns all values in order, or nothing for refs to `void`. Throws the first error in that order.
template <class T>
auto get(const std::vector<ObjectRef<T>>& refs, const GetOptions& options = {}) {
  std::vector<std::shared_ptr<const detail::Anchor>> anchors;
  anchors.reserve(refs.size());
  for (const auto& ref : refs) anchors.push_back(ref.anchor());
  const auto request = detail::get_request(options);
  // Calls `take` with each value. All values together may exceed the store, so they are read in
  // batches.
  const auto for_each = [&](const auto& take) {
    std::vector<detail::StoredValue> stored;
    for (std::size_t begin = 0; begin < anchors.size();) {
      const auto rest = std::span(anchors).subspan(begin);
      stored.resize(rest.size());
      const std::size_t count = detail::fetch_some(rest, request, stored);
      for (std::size_t i = 0; i < count; ++i) take(stored[i]);
      stored.clear();
      begin += count;
    }
  };
  if constexpr (std::is_void_v<T>) {
    for_each([](const detail::StoredValue& one) { detail::decode_result<T>(one); });
  } else {
    std::vector<T> values;
    values.reserve(anchors.size());
    for_each([&](const detail::StoredValue& one) { values.push_back(detail::decode<T>(one)); });
    return values;
  }
}

// Waits at most `timeout` for all values and returns them in order.
template <class T>
auto get(const std::vector<ObjectRef<T>>& refs, Duration timeout) {
  return get(refs, GetOptions{.timeout = timeout});
}

// Returns the value or the error that took its place. Invalid options still throw.
template <class T>
Result<T> try_get(const ObjectRef<T>& ref, const GetOptions& options) {
  detail::StoredValue value;
  const auto done = detail::fetch({&ref.anchor(), 1}, detail::get_request(options), {&value, 1});
  if (done) return *done;
  if (value.error) return *value.error;
  if constexpr (std::is_void_v<T>) {
    detail::decode_result<T>(value);
    return {};
  } else {
    return detail::decode<T>(value);
  }
}

// Returns the value or the error, without a timeout.
template <class T>
Result<T> try_get(const ObjectRef<T>& ref) {
  return try_get(ref, GetOptions{});
}

// Returns the value or the error, `GetTimeoutError` after `timeout`.
template <class T>
Result<T> try_get(const ObjectRef<T>& ref, Duration timeout) {
  return try_get(ref, GetOptions{.timeout = timeout});
}

// Returns a read-only view of a stored container, without a copy.
template <class T>
View<T> get_view(const ObjectRef<T>& ref, const GetOptions& options = {}) {
  return detail::decode_view<T>(detail::fetch_one(ref, detail::get_request(options)));
}

// Returns a read-only view, or throws `GetTimeoutError` after `timeout`.
template <class T>
View<T> get_view(const ObjectRef<T>& ref, Duration timeout) {
  return get_view(ref, GetOptions{.timeout = timeout});
}

// ---- arguments that are no refs
// -------------------------------------------------------------------- Without these overloads, a
// compiler lists every overload above and why it does not fit.

namespace detail {

template <class T>
constexpr std::true_type ref_or_refs(const ObjectRef<T>&);
template <class T>
constexpr std::true_type ref_or_refs(const std::vector<ObjectRef<T>>&);

template <class T>
concept NoRef = !requires(const T& given) {
  ref_or_refs(given);
};

template <class>
inline constexpr bool refers_to_an_object = false;

}  // namespace detail

// Does not compile: the argument is not a ref.
template <detail::NoRef T, class... Options>
T&& get(T&& given, const Options&...) {
  static_assert(detail::refers_to_an_object<std::remove_cvref_t<T>>,
                "mobula: get takes an ObjectRef or a std::vector of ObjectRefs, as remote() and "
                "put() return them");
  return static_cast<T&&>(given);
}

// Does not compile: the argument is not a ref.
template <detail::NoRef T, class... Options>
T&& try_get(T&& given, const Options&...) {
  static_assert(detail::refers_to_an_object<std::remove_cvref_t<T>>,
                "mobula: try_get takes an ObjectRef, as remote() and put() return it");
  return static_cast<T&&>(given);
}

// Does not compile: the argument is not a ref.
template <detail::NoRef T, class... Options>
T&& get_view(T&& given, const Options&...) {
  static_assert(detail::refers_to_an_object<std::remove_cvref_t<T>>,
                "mobula: get_view takes an ObjectRef, as remote() and put() return it");
  return static_cast<T&&>(given);
}

// The result of `wait`: refs in the order given.
template <class T>
struct WaitResult {
  std::vector<ObjectRef<T>> ready = {};    // refs with a value or an error
  std::vector<ObjectRef<T>> pending = {};  // all other refs
};

namespace detail {

// Returns the indices of the ready refs in ascending order; at most `options.num_returns`.
MOBULA_API std::vector<std::size_t> wait_for(std::span<const Anchor* const> anchors,
                                             const WaitOptions& options);

}  // namespace detail

// Waits until `options.num_returns` refs have a value or an error, or until the timeout. Moves the
// refs. `InvalidRequestError` if `num_returns` is below 1 or above the number of refs.
template <class T>
WaitResult<T> wait(std::vector<ObjectRef<T>>&& refs, const WaitOptions& options = {}) {
  std::vector<const detail::Anchor*> anchors;
  anchors.reserve(refs.size());
  for (const auto& ref : refs) anchors.push_back(ref.anchor().get());
  const std::vector<std::size_t> ready = detail::wait_for(anchors, options);
  WaitResult<T> result;
  result.ready.reserve(ready.size());
  for (const std::size_t i : ready) result.ready.push_back(std::move(refs[i]));
  result.pending = std::move(refs);
  refs.clear();
  if (!ready.empty()) {
    // The remaining refs move together.
    std::size_t next = 0;
    std::size_t to = ready.front();
    for (std::size_t i = to; i < result.pending.size(); ++i) {
      if (next < ready.size() && ready[next] == i) {
        ++next;
      } else {
        result.pending[to++] = std::move(result.pending[i]);
      }
    }
    result.pending.resize(to);
  }
  return result;
}

// Waits for copies of the refs.
template <class T>
WaitResult<T> wait(const std::vector<ObjectRef<T>>& refs, const WaitOptions& options = {}) {
  return wait(std::vector<ObjectRef<T>>(refs), options);
}

// Waits for a braced list: `wait({first, second})`.
template <class T>
WaitResult<T> wait(std::initializer_list<ObjectRef<T>> refs, const WaitOptions& options = {}) {
  return wait(std::vector<ObjectRef<T>>(refs), options);
}

// Does not compile: `wait` takes a vector of refs.
template <class T>
WaitResult<T> wait(const ObjectRef<T>&, const WaitOptions& = {}) {
  static_assert(!std::is_same_v<T, T>,
                "mobula: wait takes a std::vector of ObjectRefs; get(ref) waits for one value, "
                "wait({ref}) for one ref");
  return {};
}

namespace detail {

// The type that a value of type T is stored as; text becomes std::string.
template <class T>
struct Stored {
  using Type = std::remove_cvref_t<T>;
};
template <class T>
requires(std::is_convertible_v<T, std::string_view> &&
         (std::is_array_v<std::remove_reference_t<T>> || std::is_pointer_v<std::decay_t<T>> ||
          std::is_same_v<std::remove_cvref_t<T>, std::string_view>)) struct Stored<T> {
  using Type = std::string;
};

MOBULA_API std::shared_ptr<const Anchor> put_value(const Outgoing& value,
                                                   const PutOptions& options);

}  // namespace detail

// Stores a value and returns its ref. The value is written once, into the memory that readers map.
template <class T>
auto put(const T& value, const PutOptions& options = {}) {
  using StoredType = typename detail::Stored<const T&>::Type;
  detail::require_serializable<StoredType>();
  using Ref = ObjectRef<StoredType>;
  if constexpr (!is_serializable<StoredType>) {
    return Ref();
  } else if constexpr (std::is_same_v<StoredType, T>) {
    return Ref(detail::put_value(detail::OutgoingValue<T>(value), options));
  } else {
    const StoredType converted(value);
    return Ref(detail::put_value(detail::OutgoingValue<StoredType>(converted), options));
  }
}

namespace detail {

MOBULA_API void cancel_object(const std::shared_ptr<const Anchor>& anchor,
                              const CancelOptions& options);

}  // namespace detail

// Cancels the task that computes the object; `get` then throws `TaskCancelledError`. A running task
// sees `current().cancelled()`, and its blocking calls (`get`, `wait`, `remote`) throw
// `TaskCancelledError`. With `force`, the executor of a running task is terminated. `force` for the
// call of an actor is an `InvalidRequestError`.
template <class T>
void cancel(const ObjectRef<T>& ref, const CancelOptions& options = {}) {
  detail::cancel_object(ref.anchor(), options);
}

}  // namespace mobula
