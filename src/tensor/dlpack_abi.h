// DLPack 1.x as it is laid out in memory: our own prototypes, after its public specification
// (https://dmlc.github.io/dlpack/latest/c_api.html). Names of our own, so that its header may stand
// beside this one.
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
  std::int32_t type;  // DeviceType, or one that is not known here
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
  std::int64_t* strides;  // elements; null before 1.2: contiguous
  std::uint64_t byte_offset;
};

struct Managed {
  TensorView tensor;
  void* context;
  void (*deleter)(::DLManagedTensor* self);  // may be null
};

inline constexpr std::uint64_t flag_read_only = 1;

// Of every major version, `version`, `context` and `deleter` stand where they stand here.
struct ManagedVersioned {
  Version version;
  void* context;
  void (*deleter)(::DLManagedTensorVersioned* self);  // may be null
  std::uint64_t flags;
  TensorView tensor;
};

static_assert(sizeof(void*) == 8 && sizeof(TensorView) == 48 && sizeof(Managed) == 64 &&
              sizeof(ManagedVersioned) == 80);
static_assert(offsetof(TensorView, shape) == 24 && offsetof(TensorView, byte_offset) == 40);
static_assert(offsetof(Managed, deleter) == 56 && offsetof(ManagedVersioned, deleter) == 16 &&
              offsetof(ManagedVersioned, tensor) == 32);

}  // namespace mobula::internal::dlpack
