// `View<C>`: read-only access to the contiguous elements of a stored vector, string, or array,
// without a copy.
// Thread: any.
// Owner: the view pins the object; copies share the pin.
// Not: writable access. Inside another value a view is serialized as the C that it shows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <mobula/detail/value.h>

namespace mobula {

namespace detail {

template <class T>
concept Viewable = (is_contiguous_container<T> || is_std_array<T>)&&!Custom<T> &&
                   is_plain<typename T::value_type>();

}  // namespace detail

// Read-only access to the elements of a container T of trivially copyable elements.
template <class T>
class View {
  static_assert(detail::Viewable<T>,
                "mobula: View<C> needs a vector, string or std::array of numbers, or of structs of "
                "numbers without padding");

 public:
  // The type of an element.
  using value_type = typename T::value_type;
  // Iterator over the elements.
  using const_iterator = const value_type*;

  // Creates an empty view.
  View() = default;
  // Creates a view of `elements`, which `owner` keeps valid.
  View(std::span<const value_type> elements, std::shared_ptr<const void> owner)
      : elements_(elements), owner_(std::move(owner)) {}

  // Returns the address of the first element.
  const value_type* data() const { return elements_.data(); }
  // Returns the number of elements.
  std::size_t size() const { return elements_.size(); }
  // Reports whether the view has no elements.
  bool empty() const { return elements_.empty(); }
  // Returns an iterator to the first element.
  const value_type* begin() const { return data(); }
  // Returns an iterator past the last element.
  const value_type* end() const { return data() + size(); }
  // Returns the element at `index`, which must be below `size()`.
  const value_type& operator[](std::size_t index) const { return elements_[index]; }
  // Converts the view to a span.
  operator std::span<const value_type>() const { return elements_; }  // NOLINT: implicit

  // Returns the owner that keeps the elements valid.
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  std::span<const value_type> elements_;
  std::shared_ptr<const void> owner_;
};

namespace detail {

// Views `bytes` as elements: in place if they are aligned, as large values in the store are,
// otherwise as a copy.
template <class T>
View<T> view_of(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner) {
  using E = typename T::value_type;
  const std::size_t count = bytes.size() / sizeof(E);
  if (is_aligned_for<E>(bytes) && (owner || count == 0)) {
    return View<T>({reinterpret_cast<const E*>(bytes.data()), count}, owner);
  }
  struct alignas(std::max(block_alignment, alignof(E))) Block {
    std::byte of[std::max(block_alignment, alignof(E))];
  };
  auto copy = std::make_shared<std::vector<Block>>(bytes.size() / sizeof(Block) + 1);
  std::memcpy(copy->data(), bytes.data(), bytes.size());
  const auto* first = reinterpret_cast<const E*>(copy->data());
  return View<T>({first, count}, std::move(copy));
}

template <class T>
struct OwnCodec<View<T>> {
  using E = typename T::value_type;
  static constexpr bool supported() { return true; }
  static constexpr std::uint64_t fingerprint(std::uint64_t state) {
    return fingerprint_of<T>(state);
  }

  static void write(Writer& out, const View<T>& value) {
    if constexpr (is_std_array<T>) {
      if (value.size() != std::tuple_size_v<T>) throw_unwritable("a view of an array is empty");
      if constexpr (Codec<T>::is_block) out.align_to(block_alignment);
      out.write_bytes(value.data(), value.size() * sizeof(E));
    } else {
      write_block<E>(out, value.data(), value.size());
    }
  }

  static View<T> read(Reader& in) {
    if constexpr (is_std_array<T>) {
      if constexpr (Codec<T>::is_block) in.align_to(block_alignment);
      return view_of<T>(in.take(sizeof(T)), in.owner());
    } else {
      return view_of<T>(read_block<E>(in), in.owner());
    }
  }
};

// Views the bytes of a stored T without decoding them.
template <class T>
View<T> decode_view(const StoredValue& stored) {
  if constexpr (Viewable<T>) {
    Reader in = open_value(stored, fingerprint<T>(), type_name<T>);
    View<T> view = OwnCodec<View<T>>::read(in);
    require_end(in);
    return view;
  } else {
    return View<T>();
  }
}

}  // namespace detail

}  // namespace mobula
