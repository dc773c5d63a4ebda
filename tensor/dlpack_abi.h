// DLPack 1.x structures, as our own prototypes of the public specification
// (https://dmlc.github.io/dlpack/latest/c_api.html). The names differ, so that the official header
// can be included, too.
// Thread: any (plain values).
#pragma once

#include <cstddef>
#include <cstdint>

struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace mobula::internal::dlpack {

inline constexpr std::uint32_t major_version = 1;
inline constexpr std::uint32_t minor_version = 1;

struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};

enum DeviceType : std::int32_t {
  device_cpu = 1,
  device_cuda = 2,
  device_cuda_host = 3,
  device_cuda_managed = 13,
};

struct DeviceId {
  std::int32_t type;  // DeviceType, or an unknown value
  std::int32_t index;
};

enum TypeCode : std::uint8_t {
  code_int = 0,
  code_uint = 1,
  code_float = 2,
  code_opaque = 3,
  code_bfloat = 4,
  code_complex = 5,
  code_bool = 6,
  code_float8_e4m3fn = 10,
  code_float8_e5m2 = 12,
  code_float8_e8m0 = 14,
};

struct ElementType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct TensorView {
  void* data;
  DeviceId device;
  std::int32_t dimensions;
  ElementType type;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null (before 1.2): contiguous
  std::uint64_t byte_offset;
};

struct Managed {
  TensorView tensor;
  void* context;
  void (*deleter)(::DLManagedTensor* self);  // null: no deleter
};

inline constexpr std::uint64_t flag_read_only = 1;

// `version`, `context`, and `deleter` have the same offsets in every major version.
struct ManagedVersioned {
  Version version;
  void* context;
  void (*deleter)(::DLManagedTensorVersioned* self);  // null: no deleter
  std::uint64_t flags;
  TensorView tensor;
};

static_assert(sizeof(void*) == 8 && sizeof(TensorView) == 48 && sizeof(Managed) == 64 &&
              sizeof(ManagedVersioned) == 80);
static_assert(offsetof(TensorView, shape) == 24 && offsetof(TensorView, byte_offset) == 40);
static_assert(offsetof(Managed, deleter) == 56 && offsetof(ManagedVersioned, deleter) == 16 &&
              offsetof(ManagedVersioned, tensor) == 32);

}  // namespace mobula::internal::dlpack
