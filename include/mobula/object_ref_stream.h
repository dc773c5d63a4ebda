// `ObjectRefStream<T>`: the results of a streaming call, one ref after another.
// Thread: owner.
// Owner: each copy is an independent consumer at its own position. The items behind the last
// position in the cluster are released, and the call is cancelled when no position is left.
#pragma once

#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <mobula/get.h>
#include <mobula/object_ref.h>
#include <mobula/on_ready.h>
#include <mobula/options.h>
#include <mobula/result.h>

namespace mobula {

// Options of `ObjectRefStream::next`.
struct NextOptions {
  std::optional<Duration> timeout = {};  // `GetTimeoutError` after this time; absent: none
};

namespace detail {

// The step from one position of a stream to the next. No item: the end.
struct StreamStep {
  std::shared_ptr<const Anchor> item;
  std::shared_ptr<const Anchor> next;
};
// Waits for the next item. Throws the error that ended the stream.
MOBULA_API StreamStep take_step(const std::shared_ptr<const Anchor>& position,
                                const NextOptions& options);
// The same without exceptions for the errors of the call.
MOBULA_API Result<StreamStep> try_take_step(const std::shared_ptr<const Anchor>& position,
                                            const NextOptions& options);
MOBULA_API bool is_step_ready(const std::shared_ptr<const Anchor>& position);

}  // namespace detail

// The results of a streaming call. Refs can be read while the call runs. A stream can be copied,
// passed, returned, and stored inside other values; a copy continues at the position of the
// original. Every consumer gets all items from its position on, once and in order.
//
// The call may be ahead of its fastest consumer by `stream_window` items, or 256 MiB. Then it waits
// inside `co_yield` and releases its CPU. Items stay for slower consumers. The window ends when the
// stream is passed to another process. A repeated run of the call makes the same objects, and does
// not repeat the items that the caller has.
template <class T>
class ObjectRefStream {
  static_assert(std::is_same_v<T, std::remove_cvref_t<T>> && !std::is_void_v<T>,
                "mobula: ObjectRefStream<T> needs a value type");

 public:
  // The type of the values.
  using value_type = T;

  // Iterates over the remaining items. Only one iterator may be in use.
  class iterator {
   public:
    // The refs of the items.
    using value_type = ObjectRef<T>;
    // For std::iterator_traits.
    using difference_type = std::ptrdiff_t;
    // For std::iterator_traits.
    using pointer = const ObjectRef<T>*;
    // For std::iterator_traits.
    using reference = const ObjectRef<T>&;
    // An iterator that can be read once.
    using iterator_category = std::input_iterator_tag;

    // Creates the end.
    iterator() = default;
    // For the library.
    explicit iterator(ObjectRefStream* stream) : stream_(stream) { ++*this; }

    // Returns the ref of the item.
    const ObjectRef<T>& operator*() const { return item_; }
    // Accesses a member of the ref.
    const ObjectRef<T>* operator->() const { return &item_; }
    // Waits for the next item.
    iterator& operator++() {
      auto item = stream_->next();
      if (item)
        item_ = std::move(*item);
      else
        stream_ = nullptr;
      return *this;
    }
    // Waits for the next item.
    void operator++(int) { ++*this; }
    // Reports whether both are at the end, or on the same stream.
    friend bool operator==(const iterator& a, const iterator& b) { return a.stream_ == b.stream_; }

   private:
    ObjectRefStream* stream_ = nullptr;
    ObjectRef<T> item_;
  };

  // Creates a stream that refers to nothing.
  ObjectRefStream() = default;
  // For the library.
  explicit ObjectRefStream(std::shared_ptr<const detail::Anchor> position)
      : position_(std::move(position)) {}

  // Reports whether the stream refers to nothing.
  bool empty() const { return position_ == nullptr; }
  // Reports whether the stream refers to a call.
  explicit operator bool() const { return !empty(); }
  // Returns the id of the position: 32 hexadecimal digits, or an empty string.
  std::string id() const { return empty() ? std::string() : detail::hex(position_->ref().id); }

  // Waits for the next item and returns its ref, which may be read at once. Returns no ref at the
  // end. Throws the error that ended the call, after all items before it. The end and the error
  // repeat. `GetTimeoutError` after a timeout; the stream stays at its position.
  std::optional<ObjectRef<T>> next(const NextOptions& options = {}) {
    return advance(detail::take_step(position_, options));
  }
  // Returns the next item, or throws `GetTimeoutError` after `timeout`.
  std::optional<ObjectRef<T>> next(Duration timeout) { return next(NextOptions{timeout}); }
  // Returns the next item or the error that `next` would throw.
  Result<std::optional<ObjectRef<T>>> try_next(const NextOptions& options = {}) {
    auto step = detail::try_take_step(position_, options);
    if (!step) return step.error().record();
    return advance(std::move(*step));
  }
  // Reports whether `next` would return or throw at once.
  bool ready() const { return detail::is_step_ready(position_); }
  // Waits for the end of the call and returns the refs of all remaining items: the results of a
  // call with a dynamic number of results.
  std::vector<ObjectRef<T>> rest(const NextOptions& options = {}) {
    std::vector<ObjectRef<T>> items;
    ObjectRefStream ahead = *this;
    while (auto item = ahead.next(options)) items.push_back(std::move(*item));
    *this = std::move(ahead);
    return items;
  }

  // Waits for the first remaining item.
  iterator begin() { return iterator(this); }
  // Returns the end of the stream.
  iterator end() { return iterator(); }

  // Cancels the call. Items that it has yielded stay readable, then `next` throws
  // `TaskCancelledError`. No effect in other processes than that of the caller.
  void cancel(const CancelOptions& options = {}) const {
    detail::cancel_object(position_, options);
  }

  // Converts to a ref that is ready when `next` would return or throw at once, for `on_ready` and
  // `CompletionQueue`.
  operator AnyRef() const { return AnyRef(position_); }  // NOLINT: implicit

  // For the library.
  const std::shared_ptr<const detail::Anchor>& anchor() const { return position_; }

  // Compares positions.
  friend bool operator==(const ObjectRefStream& a, const ObjectRefStream& b) {
    return a.id() == b.id();
  }

 private:
  std::optional<ObjectRef<T>> advance(detail::StreamStep step) {
    if (step.item == nullptr) return std::nullopt;
    position_ = std::move(step.next);
    return ObjectRef<T>(std::move(step.item));
  }

  std::shared_ptr<const detail::Anchor> position_;
};

namespace detail {

template <class T>
struct OwnCodec<ObjectRefStream<T>> : AnchorCodec<ObjectRefStream<T>, RefKind::object> {
  static constexpr bool supported() { return true; }
  static constexpr std::uint64_t fingerprint(std::uint64_t state) {
    return mix_name(mix(state, "stream"), type_name<T>);
  }
};

}  // namespace detail

}  // namespace mobula
