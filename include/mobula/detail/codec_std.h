// Codecs of the standard library's templates: containers, optionals, variants, tuples, and times.
// Concepts identify containers, so no container header is needed.
// Thread: any; no state.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>
#include <variant>

#include <mobula/detail/codec.h>

namespace mobula::detail {

// Layout of contiguous plain elements: the count, padding to the alignment, the elements.
template <class E>
constexpr std::size_t block_alignment_of(std::size_t size_bytes) {
  return size_bytes >= block_alignment ? std::max(block_alignment, alignof(E)) : alignof(E);
}

template <class E>
void write_block(Writer& out, const E* elements, std::size_t count) {
  out.write_count(count);
  out.align_to(block_alignment_of<E>(count * sizeof(E)));
  out.write_bytes(elements, count * sizeof(E));
}

template <class E>
std::span<const std::byte> read_block(Reader& in) {
  const std::size_t size_bytes = in.read_count(sizeof(E)) * sizeof(E);
  in.align_to(block_alignment_of<E>(size_bytes));
  return in.take(size_bytes);
}

template <class E>
bool is_aligned_for(std::span<const std::byte> bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(E) == 0;
}

template <class T>
struct Codec<T, Shape::block> : Parts<'b', 0, typename T::value_type> {
  using E = typename T::value_type;
  static void write(Writer& out, const T& value) {
    write_block<E>(out, value.data(), value.size());
  }
  static T read(Reader& in) {
    const auto bytes = read_block<E>(in);
    const std::size_t count = bytes.size() / sizeof(E);
    if (is_aligned_for<E>(bytes)) {
      const auto* first = reinterpret_cast<const E*>(bytes.data());
      if constexpr (requires(T & made) {
                      made.reserve(count);
                      made.assign(first, first);
                    }) {
        if (bytes.size() < large_block_bytes) return T(first, first + count);
        T value;
        value.reserve(count);
        use_huge_pages(value.data(), bytes.size());
        value.assign(first, first + count);
        return value;
      } else {
        return T(first, first + count);
      }
    }
    T value;
    value.reserve(count);
    Reader elements(bytes, {}, nullptr);
    for (std::size_t i = 0; i < count; ++i) value.push_back(read_plain<E>(elements));
    return value;
  }
};

// Reserves no more memory than the remaining bytes could fill.
template <class T>
void reserve_checked(T& container, std::size_t count, const Reader& in) {
  if constexpr (requires { container.reserve(count); }) {
    container.reserve(std::min(count, in.remaining() / sizeof(typename T::value_type) + 1));
  }
}

template <class T>
struct Codec<T, Shape::sequence> : Parts<'s', 0, typename T::value_type> {
  using E = typename T::value_type;
  static void write(Writer& out, const T& value) {
    out.enter();
    out.write_count(value.size());
    for (const E& element : value) out.write(element);
    out.leave();
  }
  static T read(Reader& in) {
    in.enter();
    const std::size_t count = in.read_count(smallest<E>);
    T value;
    reserve_checked(value, count, in);
    for (std::size_t i = 0; i < count; ++i) value.push_back(in.read<E>());
    in.leave();
    return value;
  }
};

// The elements of a map have const keys; a reader needs mutable ones.
template <class E>
struct Element {
  using Type = E;
};
template <class K, class V>
struct Element<std::pair<const K, V>> {
  using Type = std::pair<K, V>;
};

template <class T>
struct Codec<T, Shape::association>
    : Parts<'m', 0, typename Element<typename T::value_type>::Type> {
  using E = typename Element<typename T::value_type>::Type;
  static void write(Writer& out, const T& value) {
    out.enter();
    out.write_count(value.size());
    for (const auto& element : value) {
      if constexpr (is_a<E, std::pair>) {
        out.write(element.first);
        out.write(element.second);
      } else {
        out.write(element);
      }
    }
    out.leave();
  }
  static T read(Reader& in) {
    in.enter();
    const std::size_t count = in.read_count(smallest<E>);
    T value;
    reserve_checked(value, count, in);
    for (std::size_t i = 0; i < count; ++i) value.emplace_hint(value.end(), in.read<E>());
    in.leave();
    return value;
  }
};

template <class T>
struct Codec<T, Shape::complex_number> : Parts<'c', 0, typename T::value_type> {
  static void write(Writer& out, const T& value) {
    out.write(value.real());
    out.write(value.imag());
  }
  static T read(Reader& in) {
    const auto real = in.read<typename T::value_type>();
    return T(real, in.read<typename T::value_type>());
  }
};

template <class T>
struct Codec<T, Shape::optional> : Parts<'o', 0, typename T::value_type> {
  static void write(Writer& out, const T& value) {
    out.write(value.has_value());
    if (value) out.write(*value);
  }
  static T read(Reader& in) {
    if (!in.read<bool>()) return T{};
    return T(std::in_place, in.read<typename T::value_type>());
  }
};

template <class T>
struct Codec<T, Shape::unique_pointer> : Parts<'p', 0, std::remove_cv_t<typename T::element_type>> {
  static void write(Writer& out, const T& value) {
    out.enter();
    out.write(value != nullptr);
    if (value) out.write(*value);
    out.leave();
  }
  static T read(Reader& in) {
    using E = std::remove_cv_t<typename T::element_type>;
    in.enter();
    T value(in.read<bool>() ? new E(in.read<E>()) : nullptr);
    in.leave();
    return value;
  }
};

template <class... Alternative>
struct Codec<std::variant<Alternative...>, Shape::variant> : Parts<'v', 0, Alternative...> {
  using T = std::variant<Alternative...>;
  static void write(Writer& out, const T& value) {
    if (value.valueless_by_exception()) throw_unwritable("a variant has no value");
    write_plain(out, static_cast<std::uint32_t>(value.index()));
    std::visit([&out](const auto& held) { out.write(held); }, value);
  }
  static T read(Reader& in) {
    const auto index = read_plain<std::uint32_t>(in);
    if (index >= sizeof...(Alternative)) throw_corrupt("a variant has no such alternative");
    return read_at<0>(in, index);
  }

 private:
  template <std::size_t at>
  static T read_at(Reader& in, std::uint32_t index) {
    if constexpr (at + 1 < sizeof...(Alternative)) {
      if (index != at) return read_at<at + 1>(in, index);
    }
    return T(std::in_place_index<at>, in.read<std::variant_alternative_t<at, T>>());
  }
};

template <template <class...> class Tuple, class... Part>
struct Codec<Tuple<Part...>, Shape::tuple> : Parts<'t', 0, std::remove_cv_t<Part>...> {
  using T = Tuple<Part...>;
  static void write(Writer& out, const T& value) {
    if constexpr (sizeof...(Part) == 0) {
      write_plain(out, placeholder);
    } else {
      std::apply([&out](const auto&... part) { (out.write(part), ...); }, value);
    }
  }
  static T read(Reader& in) {
    if constexpr (sizeof...(Part) == 0) in.take(1);
    return T{in.read<std::remove_cv_t<Part>>()...};
  }
};

template <class E, std::size_t size>
struct Codec<std::array<E, size>, Shape::array> : Parts<'a', size, E> {
  using T = std::array<E, size>;
  static constexpr bool is_block = is_plain<T>() && sizeof(T) >= block_alignment;

  static void write(Writer& out, const T& value) {
    if constexpr (is_block) out.align_to(block_alignment);
    if constexpr (is_plain<T>())
      write_plain(out, value);
    else if constexpr (size == 0)
      write_plain(out, placeholder);
    else
      for (const E& element : value) out.write(element);
  }
  static T read(Reader& in) {
    if constexpr (is_block) in.align_to(block_alignment);
    if constexpr (is_plain<T>()) {
      return read_plain<T>(in);
    } else if constexpr (size == 0) {
      in.take(1);
      return T{};
    } else if constexpr (size > max_members && std::is_default_constructible_v<E>) {
      T value{};
      for (E& element : value) element = in.read<E>();
      return value;
    } else {
      return read_each(in, std::make_index_sequence<size>{});
    }
  }

 private:
  template <std::size_t... I>
  static T read_each(Reader& in, std::index_sequence<I...>) {
    return T{{(static_cast<void>(I), in.read<E>())...}};
  }
};

template <class T>
struct Codec<T, Shape::duration>
    : Parts<'d', mix(T::period::num, T::period::den), typename T::rep> {
  static void write(Writer& out, const T& value) { out.write(value.count()); }
  static T read(Reader& in) { return T(in.read<typename T::rep>()); }
};

template <class T>
struct Codec<T, Shape::time_point> : Parts<'T', 0, typename T::duration> {
  static void write(Writer& out, const T& value) { out.write(value.time_since_epoch()); }
  static T read(Reader& in) { return T(in.read<typename T::duration>()); }
};

}  // namespace mobula::detail
