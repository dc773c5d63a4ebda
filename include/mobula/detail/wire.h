// The bytes of values: Writer appends to them, Reader takes from them. Little-endian, positions and
// alignments counted from the start of the value. A Writer without memory only counts, so that a
// value is written once, into memory of exactly its size. Readers trust nothing: every length is
// checked against what is left. One thread at a time; nothing here is kept over calls.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <mobula/detail/export.h>
#include <mobula/detail/raw_id.h>

namespace mobula {

static_assert(std::endian::native == std::endian::little, "mobula: values are little-endian");

namespace detail {

// Both throw SerializationError.
[[noreturn]] MOBULA_API void throw_corrupt(const char* what);
[[noreturn]] MOBULA_API void throw_unwritable(const char* what);

// Values nest at most so deep, in both directions.
inline constexpr int max_depth = 512;

// Contiguous elements of at least this many bytes begin at a multiple of it.
inline constexpr std::size_t block_alignment = 64;

}  // namespace detail

class MOBULA_API Writer {
 public:
  // Counts bytes and collects contained refs.
  Writer() = default;
  // Writes to `into`, where a counting Writer has been before.
  explicit Writer(std::span<std::byte> into)
      : out_(into.data()), capacity_(into.size()), counting_(false) {}

  // Any serialisable value (<mobula/serialize.h>).
  template <class T>
  void write(const T& value);

  void write_bytes(const void* from, std::size_t size) {
    if (!counting_ && size != 0) {
      if (size > capacity_ - position_) detail::throw_unwritable("it grew while it was written");
      std::memcpy(out_ + position_, from, size);
    }
    position_ += size;
  }

  void write_count(std::size_t count) {
    const std::uint64_t number = count;
    write_bytes(&number, sizeof number);
  }

  // Zeros up to the next multiple of `alignment`, a power of two of at most 64.
  void align_to(std::size_t alignment) {
    static constexpr std::byte zeros[detail::block_alignment] = {};
    write_bytes(zeros, (0 - position_) & (alignment - 1));
  }

  // A ref that belongs to the value. In the bytes stands its place in the list.
  void write_ref(detail::ContainedRef ref) {
    const auto index = static_cast<std::uint32_t>(ref_count_++);
    if (counting_) contained_.push_back(ref);
    write_bytes(&index, sizeof index);
  }

  std::size_t position() const { return position_; }
  std::vector<detail::ContainedRef> take_contained() { return std::move(contained_); }

  void enter() {
    if (++depth_ > detail::max_depth) detail::throw_unwritable("it nests deeper than 512 levels");
  }
  void leave() { --depth_; }

 private:
  std::byte* out_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t position_ = 0;
  std::size_t ref_count_ = 0;
  int depth_ = 0;
  bool counting_ = true;
  std::vector<detail::ContainedRef> contained_;
};

class MOBULA_API Reader {
 public:
  // `owner` keeps `bytes` in place; views take a share of it.
  Reader(std::span<const std::byte> bytes, std::span<const detail::ContainedRef> contained,
         std::shared_ptr<const void> owner)
      : bytes_(bytes), contained_(contained), owner_(std::move(owner)) {}

  // Any serialisable value. Throws SerializationError where the bytes are none.
  template <class T>
  T read();

  void read_bytes(void* into, std::size_t size) {
    const auto from = take(size);
    if (size != 0) std::memcpy(into, from.data(), size);
  }

  // The next `size` bytes, in place.
  std::span<const std::byte> take(std::size_t size) {
    if (size > remaining()) detail::throw_corrupt("it ends too early");
    const auto taken = bytes_.subspan(position_, size);
    position_ += size;
    return taken;
  }

  // How many elements follow, each of at least `smallest` (> 0) bytes.
  std::size_t read_count(std::size_t smallest = 1) {
    std::uint64_t number = 0;
    read_bytes(&number, sizeof number);
    if (number > remaining() / smallest)
      detail::throw_corrupt("it names more elements than it has");
    return static_cast<std::size_t>(number);
  }

  void align_to(std::size_t alignment) { take((0 - position_) & (alignment - 1)); }

  detail::RawId read_ref(detail::RefKind kind) {
    std::uint32_t index = 0;
    read_bytes(&index, sizeof index);
    if (index >= contained_.size() || contained_[index].kind != kind) {
      detail::throw_corrupt("it names a ref that it does not hold");
    }
    return contained_[index].id;
  }

  std::size_t position() const { return position_; }
  std::size_t remaining() const { return bytes_.size() - position_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  void enter() {
    if (++depth_ > detail::max_depth) detail::throw_corrupt("it nests deeper than 512 levels");
  }
  void leave() { --depth_; }

 private:
  std::span<const std::byte> bytes_;
  std::span<const detail::ContainedRef> contained_;
  std::shared_ptr<const void> owner_;
  std::size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace mobula
