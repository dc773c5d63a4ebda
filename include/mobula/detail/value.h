// Values between user code and the runtime: Outgoing is a value that can be written, StoredValue a
// value that can be read. The bytes are a header of 16 bytes (format, fingerprint of the type),
// then those of the codec.
// Thread: owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include <mobula/detail/error_record.h>
#include <mobula/detail/export.h>
#include <mobula/detail/raw_id.h>
#include <mobula/serialize.h>

namespace mobula::detail {

// A measured value, ready to be written once into `size_bytes()` bytes of memory aligned to 64
// bytes. It lives as long as the call that it is passed to.
class MOBULA_API Outgoing {
 public:
  Outgoing(const Outgoing&) = delete;
  Outgoing& operator=(const Outgoing&) = delete;

  std::size_t size_bytes() const { return size_bytes_; }
  // Excludes the elements of tensors of at least `from_bytes` bytes: the value is measured and
  // written without them. `origins` states what the included tensors record about their memory.
  void set_apart(std::size_t from_bytes, Origins origins = Origins::unrecorded) const;
  // Returns the excluded tensors, each a TensorParts whose elements fill its memory, in the order
  // of their refs in `contained`.
  const std::vector<std::shared_ptr<const void>>& apart() const { return apart_; }
  // Returns the refs inside the value in serialization order. The caller holds them while this
  // object lives; a caller that stores the value acquires its own counts first.
  const std::vector<ContainedRef>& contained() const { return contained_; }

  // Fills `into`, which has size_bytes() bytes. False: writing failed, the bytes are invalid, and
  // the user gets the exception from rethrow_failure().
  bool write(std::span<std::byte> into) const noexcept;
  void rethrow_failure() const;

 protected:
  explicit Outgoing(std::uint64_t fingerprint) : fingerprint_(fingerprint) {}
  virtual ~Outgoing();
  virtual void fill(Writer& out) const = 0;
  // Called once by the constructor of the derived class.
  void measure() const;

 private:
  void write_all(Writer& out) const;

  std::uint64_t fingerprint_;
  // The measurements of the value; they do not change the value.
  mutable std::size_t size_bytes_ = 0;
  mutable std::size_t apart_from_ = Writer::all_inside;
  mutable Origins origins_ = Origins::unrecorded;
  mutable std::vector<ContainedRef> contained_;
  mutable std::vector<std::shared_ptr<const void>> apart_;
  mutable std::exception_ptr failure_;
};

template <class T>
class OutgoingValue final : public Outgoing {
 public:
  explicit OutgoingValue(const T& value) : Outgoing(fingerprint<T>()), value_(value) { measure(); }

 private:
  void fill(Writer& out) const override { out.write(value_); }
  const T& value_;
};

// The value type of ObjectRef<void>.
using Nothing = std::monostate;

// A value in memory, or the error that took its place.
struct StoredValue {
  std::span<const std::byte> bytes = {};
  // Keeps `bytes` valid, and the counts of the contained refs.
  std::shared_ptr<const void> owner = {};
  std::vector<ContainedRef> contained = {};
  // One entry per contained ref, if one of them is a tensor.
  std::vector<ApartTensor> apart = {};
  std::optional<Device> device = {};  // requested location of the tensors; absent: their default
  std::shared_ptr<const ErrorRecord> error = {};
};

// Positions a Reader after the header. Throws the error of `stored.error`, and SerializationError
// if the header has another fingerprint.
MOBULA_API Reader open_value(const StoredValue& stored, std::uint64_t fingerprint,
                             std::string_view type);
MOBULA_API void require_end(const Reader& in);
// Reports whether the header has this fingerprint.
MOBULA_API bool has_fingerprint(const StoredValue& stored, std::uint64_t fingerprint);

template <class T>
T decode(const StoredValue& stored) {
  require_serializable<T>();
  Reader in = open_value(stored, fingerprint<T>(), type_name<T>);
  if constexpr (is_serializable<T>) {
    T value = in.read<T>();
    require_end(in);
    return value;
  }
}

}  // namespace mobula::detail
