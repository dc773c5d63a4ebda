// Values on their way between user code and the runtime: Outgoing is one that wants to be written,
// StoredValue one that lies somewhere and can be read. A value's bytes are a header of 16 bytes
// (format, fingerprint of the type) and what its codec wrote.
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

// A value that lives elsewhere, measured and ready to be written once into memory of `size_bytes()`
// bytes that begins at a multiple of 64. Lives as long as the call it is passed to; one thread.
class MOBULA_API Outgoing {
 public:
  Outgoing(const Outgoing&) = delete;
  Outgoing& operator=(const Outgoing&) = delete;

  std::size_t size_bytes() const { return size_bytes_; }
  // Leaves the elements of tensors of at least `from_bytes` where they are: the value is measured, and
  // later written, without them. `origins`: what those inside say of the memory that they are in.
  void set_apart(std::size_t from_bytes, Origins origins = Origins::untold) const;
  // Those tensors, each a TensorParts whose elements fill their memory, in the order of their refs among
  // the contained ones.
  const std::vector<std::shared_ptr<const void>>& apart() const { return apart_; }
  // The refs inside the value, in the order in which its bytes name them. The caller holds them for
  // as long as this lives; who stores the value must take counts of its own before.
  const std::vector<ContainedRef>& contained() const { return contained_; }

  // Fills `into`, exactly size_bytes() long. False: writing failed, the bytes are worthless, and
  // the caller of the runtime gets the exception from rethrow_failure().
  bool write(std::span<std::byte> into) const noexcept;
  void rethrow_failure() const;

 protected:
  explicit Outgoing(std::uint64_t fingerprint) : fingerprint_(fingerprint) {}
  virtual ~Outgoing();
  virtual void fill(Writer& out) const = 0;
  // To be called once by the constructor of the derived class.
  void measure() const;

 private:
  void write_all(Writer& out) const;

  std::uint64_t fingerprint_;
  // What the value looks like when written; it does not change the value.
  mutable std::size_t size_bytes_ = 0;
  mutable std::size_t apart_from_ = Writer::all_inside;
  mutable Origins origins_ = Origins::untold;
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

// What a ref to nothing stands for.
using Nothing = std::monostate;

// A value that lies in memory, or the error that stands in its place.
struct StoredValue {
  std::span<const std::byte> bytes = {};
  // Keeps `bytes` where they are, and the counts of the contained refs.
  std::shared_ptr<const void> owner = {};
  std::vector<ContainedRef> contained = {};
  // One for each contained ref, if one of them is a tensor.
  std::vector<ApartTensor> apart = {};
  std::optional<Device> device = {};  // where its tensors are wanted; else where each one belongs
  std::shared_ptr<const ErrorRecord> error = {};
};

// Positions a Reader after the header. Throws what `stored.error` stands for, and
// SerializationError where the header is not that of the type with this fingerprint.
MOBULA_API Reader open_value(const StoredValue& stored, std::uint64_t fingerprint,
                             std::string_view type);
MOBULA_API void require_end(const Reader& in);

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
