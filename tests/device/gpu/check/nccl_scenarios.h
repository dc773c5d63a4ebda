// Scenarios of gpu_check_driver about NCCL between actors of fractions of one GPU.
// Thread: the main thread.
#pragma once

namespace mobula::internal::gpu_check {

// Two and three actors: strict transfers, a group, a killed member, and another group. Needs NCCL
// 2.30. `brief`: small sizes.
void share_gpu_by_nccl(bool brief);
// Refusals of an older NCCL, and their texts.
void refuse_shared_gpu(bool brief);

}  // namespace mobula::internal::gpu_check
