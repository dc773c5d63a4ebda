// Part of NCCL's binary interface that Mobula calls, from NCCL's user guide (API of 2.28). These
// are our own prototypes, because no build may need NCCL's header. Layouts and numbers are those of
// the library and must not change. `abi_check.cc` compares them with the official header if
// installed.
// Thread: any (declarations).
#pragma once

#include <climits>
#include <cstddef>

#include "device/gpu/cuda_abi.h"

namespace mobula::internal::nccl_abi {

using Status = int;  // ncclResult_t
inline constexpr Status success = 0;
inline constexpr Status unhandled_cuda_error = 1;
inline constexpr Status system_error = 2;
inline constexpr Status internal_error = 3;
inline constexpr Status invalid_argument = 4;
inline constexpr Status invalid_usage = 5;
inline constexpr Status remote_error = 6;
inline constexpr Status in_progress = 7;

// ncclDataType_t
inline constexpr int type_int8 = 0;
inline constexpr int type_bytes = 1;  // ncclUint8
inline constexpr int type_int32 = 2;
inline constexpr int type_uint32 = 3;
inline constexpr int type_int64 = 4;
inline constexpr int type_uint64 = 5;
inline constexpr int type_float16 = 6;
inline constexpr int type_float32 = 7;
inline constexpr int type_float64 = 8;
inline constexpr int type_bfloat16 = 9;
// ncclRedOp_t
inline constexpr int op_sum = 0;
inline constexpr int op_product = 1;
inline constexpr int op_max = 2;
inline constexpr int op_min = 3;
inline constexpr int op_average = 4;
inline constexpr int undefined = INT_MIN;

// Encoding of a version: major 2, minor 28, patch 9.
constexpr int version(int major, int minor, int patch) {
  return major * 10'000 + minor * 100 + patch;
}
inline constexpr int described_version = version(2, 28, 9);

using Communicator = struct CommunicatorOpaque*;

struct UniqueId {
  char bytes[128];
};

// ncclConfig_t of 2.28; later libraries accept a shorter structure by its size.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned config_version = described_version;
  int blocking = undefined;
  int cga_cluster_size = undefined;
  int min_ctas = undefined;
  int max_ctas = undefined;
  const char* net_name = nullptr;
  int split_share = undefined;
  int traffic_class = undefined;
  const char* name = nullptr;
  int collnet_enable = undefined;
  int cta_policy = undefined;
  int shrink_share = undefined;
  int nvls_ctas = undefined;
  int channels_per_net_peer = undefined;
  int nvlink_centric_sched = undefined;
};

// Columns: member name, name in the library, type.
#define MOBULA_NCCL_FUNCTIONS(each)                                                                \
  each(version_of, ncclGetVersion, Status(int*)) each(error_string, ncclGetErrorString,            \
                                                      const char*(Status))                         \
      each(unique_id, ncclGetUniqueId, Status(UniqueId*)) each(                                    \
          init_rank, ncclCommInitRankConfig, Status(Communicator*, int, UniqueId, int, Config*))   \
          each(async_error, ncclCommGetAsyncError, Status(Communicator, Status*)) each(            \
              group_start, ncclGroupStart, Status()) each(group_end, ncclGroupEnd, Status())       \
              each(send, ncclSend,                                                                 \
                   Status(const void*, std::size_t, int, int, Communicator, cuda_abi::Stream))     \
                  each(receive, ncclRecv,                                                          \
                       Status(void*, std::size_t, int, int, Communicator, cuda_abi::Stream))       \
                      each(broadcast, ncclBroadcast,                                               \
                           Status(const void*, void*, std::size_t, int, int, Communicator,         \
                                  cuda_abi::Stream))                                               \
                          each(all_reduce, ncclAllReduce,                                          \
                               Status(const void*, void*, std::size_t, int, int, Communicator,     \
                                      cuda_abi::Stream))                                           \
                              each(reduce, ncclReduce,                                             \
                                   Status(const void*, void*, std::size_t, int, int, int,          \
                                          Communicator, cuda_abi::Stream))                         \
                                  each(all_gather, ncclAllGather,                                  \
                                       Status(const void*, void*, std::size_t, int, Communicator,  \
                                              cuda_abi::Stream))                                   \
                                      each(reduce_scatter, ncclReduceScatter,                      \
                                           Status(const void*, void*, std::size_t, int, int,       \
                                                  Communicator, cuda_abi::Stream))                 \
                                          each(finalize, ncclCommFinalize, Status(Communicator))   \
                                              each(destroy, ncclCommDestroy, Status(Communicator)) \
                                                  each(abort, ncclCommAbort, Status(Communicator))
// Optional functions: null in a library that lacks them.
#define MOBULA_NCCL_NEWER_FUNCTIONS(each) \
  each(revoke, ncclCommRevoke, Status(Communicator, int)) /* since 2.28.9 */

#define MOBULA_TYPE(member, name, type) using name##Type = type;
MOBULA_NCCL_FUNCTIONS(MOBULA_TYPE)
MOBULA_NCCL_NEWER_FUNCTIONS(MOBULA_TYPE)
#undef MOBULA_TYPE

}  // namespace mobula::internal::nccl_abi
