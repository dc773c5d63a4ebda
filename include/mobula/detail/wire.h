// The bytes of values: Writer appends, Reader consumes. A Writer without memory only counts, so
// that a value is written once, into memory of its exact size. Readers check every length against
// the remaining bytes.
// Thread: owner.
// Units: little-endian; positions and alignments from the start of the value.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <mobula/detail/export.h>
#include <mobula/detail/raw_id.h>
#include <mobula/device.h>

namespace mobula {

static_assert(std::endian::native == std::endian::little, "mobula: values are little-endian");

namespace detail {

// Both functions throw SerializationError.
[[noreturn]] MOBULA_API void throw_corrupt(const char* what);
[[noreturn]] MOBULA_API void throw_unwritable(const char* what);

// Limit of the nesting depth of values, for writing and reading.
inline constexpr int max_depth = 512;

class TensorStorage;

// The elements of a tensor that are stored outside the value.
struct ApartTensor {
  std::shared_ptr<TensorStorage> storage;
  std::int64_t byte_offset = 0;  // offset of the first element
};

// Minimum size of a block that is copied into huge pages, because most of the cost of a copy into
// fresh memory is its page faults.
inline constexpr std::size_t large_block_bytes = std::size_t{4} << 20;
// Requests huge pages for memory that was allocated and is not written yet.
MOBULA_API void use_huge_pages(const void* memory, std::size_t size_bytes) noexcept;

// Contiguous elements of at least this size are aligned to it.
inline constexpr std::size_t block_alignment = 64;

// The record that tensors inside a value keep of their original memory, for readers in the same
// process: none; its address, valid while the memory is unchanged; or its address even if the
// memory has changed.
enum class Origins : std::uint8_t { unrecorded, recorded, aliased };

}  // namespace detail

// Appends the bytes of one value. Passed to `Serializer<T>::write`.
class MOBULA_API Writer {
 public:
  // No tensor is stored outside the value.
  static constexpr std::size_t all_inside = static_cast<std::size_t>(-1);

  // Counts bytes and collects contained refs. Elements of tensors that have at least `apart_from`
  // (> 0) bytes are excluded.
  explicit Writer(std::size_t apart_from = all_inside,
                  detail::Origins origins = detail::Origins::unrecorded)
      : apart_from_(apart_from), origins_(origins) {}
  // Writes to `into`, whose size a counting Writer has measured.
  explicit Writer(std::span<std::byte> into, std::size_t apart_from = all_inside,
                  detail::Origins origins = detail::Origins::unrecorded)
      : out_(into.data()),
        capacity_(into.size()),
        apart_from_(apart_from),
        origins_(origins),
        counting_(false) {}

  // Writes any serializable value.
  template <class T>
  void write(const T& value);

  // Writes bytes without a length.
  void write_bytes(const void* from, std::size_t size) {
    if (!counting_ && size != 0) {
      if (size > capacity_ - position_) detail::throw_unwritable("it grew while it was written");
      std::memcpy(out_ + position_, from, size);
    }
    position_ += size;
  }

  // Returns the next `size` bytes for the caller to fill, once; empty while counting.
  std::span<std::byte> claim(std::size_t size) {
    std::span<std::byte> room;
    if (!counting_ && size != 0) {
      if (size > capacity_ - position_) detail::throw_unwritable("it grew while it was written");
      room = {out_ + position_, size};
    }
    position_ += size;
    return room;
  }

  // Writes a number of elements.
  void write_count(std::size_t count) {
    const std::uint64_t number = count;
    write_bytes(&number, sizeof number);
  }

  // Writes zeros up to the next multiple of `alignment`, a power of two of at most 64.
  void align_to(std::size_t alignment) {
    static constexpr std::byte zeros[detail::block_alignment] = {};
    write_bytes(zeros, (0 - position_) & (alignment - 1));
  }

  // Writes a ref that belongs to the value as its index in the list of refs.
  void write_ref(detail::ContainedRef ref) {
    const auto index = static_cast<std::uint32_t>(ref_count_++);
    if (counting_) contained_.push_back(ref);
    write_bytes(&index, sizeof index);
  }

  // Reports whether elements of this size are stored outside the value; then write_apart() replaces
  // them.
  bool stand_apart(std::size_t size) const { return size >= apart_from_; }
  // `tensor` is a TensorParts. The ref that replaces it gets its id later.
  void write_apart(const std::shared_ptr<const void>& tensor) {
    write_ref({detail::RefKind::tensor, {}});
    if (counting_) apart_.push_back(tensor);
  }

  // Returns the record that included tensors keep of their original memory.
  detail::Origins origins() const { return origins_; }

  // Returns the number of bytes written.
  std::size_t position() const { return position_; }
  // Reports whether this writer has no memory and only counts.
  bool is_counting() const { return counting_; }
  // Returns the contained refs in serialization order.
  std::vector<detail::ContainedRef> take_contained() { return std::move(contained_); }
  // Returns the excluded tensors in the order of their refs.
  std::vector<std::shared_ptr<const void>> take_apart() { return std::move(apart_); }

  // Begins a nested value; throws beyond the limit of the depth.
  void enter() {
    if (++depth_ > detail::max_depth) detail::throw_unwritable("it nests deeper than 512 levels");
  }
  // Ends a nested value.
  void leave() { --depth_; }

 private:
  std::byte* out_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t position_ = 0;
  std::size_t ref_count_ = 0;
  std::size_t apart_from_ = all_inside;
  detail::Origins origins_ = detail::Origins::unrecorded;
  int depth_ = 0;
  bool counting_ = true;
  std::vector<detail::ContainedRef> contained_;
  std::vector<std::shared_ptr<const void>> apart_;
};

// Consumes the bytes of one value. Passed to `Serializer<T>::read`.
class MOBULA_API Reader {
 public:
  // `owner` keeps `bytes` valid; views share it. `apart` has an entry per contained ref, if one of
  // them is a tensor.
  Reader(std::span<const std::byte> bytes, std::span<const detail::ContainedRef> contained,
         std::shared_ptr<const void> owner, std::span<const detail::ApartTensor> apart = {})
      : bytes_(bytes), contained_(contained), apart_(apart), owner_(std::move(owner)) {}

  // Reads any serializable value. SerializationError if the bytes are not a T.
  template <class T>
  T read();

  // Reads bytes without a length.
  void read_bytes(void* into, std::size_t size) {
    const auto from = take(size);
    if (size != 0) std::memcpy(into, from.data(), size);
  }

  // Returns the next `size` bytes, in place.
  std::span<const std::byte> take(std::size_t size) {
    if (size > remaining()) detail::throw_corrupt("it ends too early");
    const auto taken = bytes_.subspan(position_, size);
    position_ += size;
    return taken;
  }

  // Reads the number of following elements, each of at least `smallest` (> 0) bytes.
  std::size_t read_count(std::size_t smallest = 1) {
    std::uint64_t number = 0;
    read_bytes(&number, sizeof number);
    if (number > remaining() / smallest)
      detail::throw_corrupt("it names more elements than it has");
    return static_cast<std::size_t>(number);
  }

  // Skips to the next multiple of `alignment`.
  void align_to(std::size_t alignment) { take((0 - position_) & (alignment - 1)); }

  // Reads a ref of this kind and returns its id.
  detail::RawId read_ref(detail::RefKind kind) { return contained_[ref_index(kind)].id; }
  // Reads a tensor whose elements are stored outside the value.
  const detail::ApartTensor& read_apart() {
    const std::size_t index = ref_index(detail::RefKind::tensor);
    if (index >= apart_.size() || !apart_[index].storage) {
      detail::throw_corrupt("the elements of a tensor are not there");
    }
    return apart_[index];
  }

  // Returns the requested location of tensors; absent: their default.
  const std::optional<Device>& device() const { return device_; }
  // Sets the requested location of tensors.
  void set_device(std::optional<Device> device) { device_ = device; }

  // Returns the number of bytes read.
  std::size_t position() const { return position_; }
  // Returns the number of bytes left.
  std::size_t remaining() const { return bytes_.size() - position_; }
  // Returns the owner that keeps the bytes valid.
  const std::shared_ptr<const void>& owner() const { return owner_; }

  // Begins a nested value; throws beyond the limit of the depth.
  void enter() {
    if (++depth_ > detail::max_depth) detail::throw_corrupt("it nests deeper than 512 levels");
  }
  // Ends a nested value.
  void leave() { --depth_; }

 private:
  std::size_t ref_index(detail::RefKind kind) {
    std::uint32_t index = 0;
    read_bytes(&index, sizeof index);
    if (index >= contained_.size() || contained_[index].kind != kind) {
      detail::throw_corrupt("it names a ref that it does not hold");
    }
    return index;
  }

  std::span<const std::byte> bytes_;
  std::span<const detail::ContainedRef> contained_;
  std::span<const detail::ApartTensor> apart_;
  std::shared_ptr<const void> owner_;
  std::optional<Device> device_;
  std::size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace mobula
