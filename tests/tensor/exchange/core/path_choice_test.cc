// Choice of paths and reasons against other paths: single cases, and invariants over random
// queries.
#include "tensor/exchange/core/path_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "matrix/cells.h"

namespace mobula::internal::transfer {
namespace {

using enum DirectPath;
using matrix::belongs_to;
using matrix::Column;
using matrix::Part;
using matrix::Proof;
using testing::ElementsAre;
using testing::IsEmpty;

const ByteLocation host{};
const ByteLocation gpu0{"GPU-0"};
const ByteLocation gpu1{"GPU-1"};

ProcessReach process(std::uint64_t number, const char* machine) {
  ProcessReach reach;
  reach.process = ProcessId::of(number);
  reach.machine = machine;
  for (const auto path : {shm, tcp, gloo, ucx, cuda_ipc, staged}) reach.paths[path] = {};
  reach.paths[nccl] = {{}, "2.28.9"};
  return reach;
}

PathQuestion between(const char* from, const char* to, const ByteLocation& source,
                     const ByteLocation& destination) {
  PathQuestion question;
  question.from = process(1, from);
  question.to = process(2, to);
  question.source = source;
  question.destination = destination;
  return question;
}

std::string refusal_of(const PathChoice& choice, DirectPath path) {
  for (const auto& each : choice.refusals) {
    if (each.path == path) return each.why;
  }
  return "not refused";
}

TEST(PathChoice, SameProcess_SharesMemory) {
  auto question = between("a", "a", host, host);
  question.to.process = question.from.process;
  EXPECT_THAT(choose_paths(question).paths, ElementsAre(inproc));
  question.source = question.destination = gpu0;
  EXPECT_THAT(choose_paths(question).paths, ElementsAre(inproc));
}

TEST(PathChoice, ChoosesPathsForHostMemoryOfOneHost) {
  const auto choice = choose_paths(between("a", "a", host, host));
  EXPECT_THAT(choice.paths, ElementsAre(shm, store));
  EXPECT_EQ(refusal_of(choice, cuda_ipc), "one end is not in device memory");
  EXPECT_EQ(refusal_of(choice, tcp), "on one machine shared memory is better");
  EXPECT_FALSE(choice.sealed);
}

TEST(PathChoice, ChoosesPathsForHostMemoryOfTwoHosts) {
  auto question = between("a", "b", host, host);
  auto choice = choose_paths(question);
  EXPECT_THAT(choice.paths, ElementsAre(tcp, store));
  EXPECT_TRUE(choice.sealed);
  question.trusted = true;
  choice = choose_paths(question);
  EXPECT_THAT(choice.paths, ElementsAre(tcp, store));
  EXPECT_FALSE(choice.sealed);
  EXPECT_EQ(refusal_of(choice, ucx), "no RDMA between the two machines");
  question.from.rdma = question.to.rdma = true;
  EXPECT_THAT(choose_paths(question).paths, ElementsAre(ucx, tcp, store));
  question.trusted = false;
  EXPECT_EQ(refusal_of(choose_paths(question), ucx), "fabric not trusted");
}

TEST(PathChoice, ChoosesPathsForDevicesOfOneHost) {
  auto question = between("a", "a", gpu0, gpu0);
  auto choice = choose_paths(question);
  EXPECT_THAT(choice.paths, ElementsAre(cuda_ipc, staged, store));
  EXPECT_EQ(refusal_of(choice, nccl),
            "both ends are on one device, where only a transfer that names nccl uses it");
  question.destination = gpu1;
  choice = choose_paths(question);
  EXPECT_THAT(choice.paths, ElementsAre(nccl, staged, store));
  EXPECT_EQ(refusal_of(choice, cuda_ipc), "the two devices cannot reach each other");
  question.peer_access = true;
  EXPECT_THAT(choose_paths(question).paths, ElementsAre(cuda_ipc, nccl, staged, store));
  question.source.exportable = false;
  EXPECT_EQ(refusal_of(choose_paths(question), cuda_ipc),
            "the memory is not of the runtime's device arena");
}

TEST(PathChoice, ChoosesPathsForDevicesOfTwoHosts) {
  belongs_to(Part::untrusted, Column::nccl, Proof::real);
  belongs_to(Part::missing, Column::staged, Proof::real);
  auto question = between("a", "b", gpu0, gpu1);
  EXPECT_EQ(refusal_of(choose_paths(question), nccl), "fabric not trusted");
  EXPECT_THAT(choose_paths(question).paths, ElementsAre(staged, store));
  question.trusted = true;
  EXPECT_THAT(choose_paths(question).paths, ElementsAre(nccl, staged, store));
  question.to.paths[nccl].version = "2.30.7";
  EXPECT_EQ(refusal_of(choose_paths(question), nccl), "the versions differ: 2.28.9 and 2.30.7");
  question.to.paths[nccl] = {"libnccl.so.2 is not there", {}};
  EXPECT_EQ(refusal_of(choose_paths(question), nccl), "the receiver: libnccl.so.2 is not there");
  question.from.paths.erase(nccl);
  EXPECT_EQ(refusal_of(choose_paths(question), nccl), "the holder does not have it");
}

TEST(PathChoice, NamedPath_IsUsedAloneUnlessFallbackAllowed) {
  belongs_to(Part::strict, Column::cuda_ipc, Proof::real);
  auto question = between("a", "a", host, host);
  question.named = nccl;
  auto choice = choose_paths(question);
  EXPECT_THAT(choice.paths, IsEmpty());
  EXPECT_THAT(choice.refusals, ElementsAre(PathRefusal{nccl, "one end is not in device memory"}));
  question.allow_fallback = true;
  EXPECT_THAT(choose_paths(question).paths, ElementsAre(shm, store));
  question.named = tcp;
  EXPECT_THAT(choose_paths(question).paths, ElementsAre(tcp, shm, store))
      << "named, it is taken within a machine, too";
  question.allow_fallback = false;
  EXPECT_THAT(choose_paths(question).paths, ElementsAre(tcp));
  question = between("a", "a", gpu0, gpu0);
  question.named = cuda_ipc;
  EXPECT_THAT(choose_paths(question).paths, ElementsAre(cuda_ipc));
  question.to.paths[cuda_ipc] = {"libcuda.so.1 is not there", {}};
  EXPECT_THAT(choose_paths(question).paths, IsEmpty());
  EXPECT_THAT(choose_paths(question).refusals,
              ElementsAre(PathRefusal{cuda_ipc, "the receiver: libcuda.so.1 is not there"}));
}

TEST(PathChoice, NamedNccl_ConnectsOneDeviceIfBothAccept) {
  auto question = between("a", "a", gpu0, gpu0);
  question.named = nccl;
  for (auto* side : {&question.from, &question.to}) side->paths[nccl].version = "2.30.7";
  const std::string holder = "the holder " + question.from.process.brief(),
                    receiver = "the receiver " + question.to.process.brief();
  const std::string no_switch =
      " does not report NCCL_MULTI_RANK_GPU_ENABLE=1; set it to 1 or unset it, in this release of "
      "Mobula";
  EXPECT_EQ(refusal_of(choose_paths(question), nccl),
            holder + " and " + receiver + " share GPU-0, and " + holder + no_switch);
  question.from.nccl_shares_gpu = true;
  EXPECT_EQ(refusal_of(choose_paths(question), nccl),
            holder + " and " + receiver + " share GPU-0, and " + receiver + no_switch)
      << "an earlier release does not report it";
  question.to.nccl_shares_gpu = true;
  EXPECT_THAT(choose_paths(question).paths, ElementsAre(nccl));
  question.allow_fallback = true;
  EXPECT_THAT(choose_paths(question).paths, ElementsAre(nccl, cuda_ipc, staged, store));
  question.named.reset();
  EXPECT_THAT(choose_paths(question).paths, ElementsAre(cuda_ipc, staged, store));
  question = between("a", "a", gpu0, gpu0);
  question.named = nccl;
  EXPECT_EQ(refusal_of(choose_paths(question), nccl),
            holder + " and " + receiver + " share GPU-0, and the NCCL of " + holder +
                " is 2.28.9, which accepts one rank per GPU; install 2.30 or newer");
  question.to.paths[nccl] = {"libnccl.so.2 is not there", {}};
  EXPECT_EQ(refusal_of(choose_paths(question), nccl), "the receiver: libnccl.so.2 is not there");
}

TEST(PathChoice, Gloo_IsUsedOnlyByName) {
  auto question = between("a", "b", host, host);
  question.trusted = true;
  EXPECT_EQ(refusal_of(choose_paths(question), gloo), "not refused") << "it is not considered";
  question.named = gloo;
  EXPECT_THAT(choose_paths(question).paths, ElementsAre(gloo));
  question.trusted = false;
  EXPECT_EQ(refusal_of(choose_paths(question), gloo), "fabric not trusted");
}

// For any query: without a named path, the list ends with the store or with the same memory. No
// path is both chosen and rejected. No unencrypted path crosses machines over an untrusted fabric.
TEST(PathChoice, KeepsRulesForEveryQuery) {
  Random random(7);
  const ByteLocation locations[] = {host, gpu0, gpu1, {"GPU-0", false}};
  for (int i = 0; i < 20'000; ++i) {
    auto question = between("a", random.chance(500) ? "a" : "b", locations[random.below(4)],
                            locations[random.below(4)]);
    if (random.chance(100)) question.to.process = question.from.process;
    if (question.to.process == question.from.process) question.to.machine = question.from.machine;
    for (auto* side : {&question.from, &question.to}) {
      for (auto& [path, support] : side->paths) {
        if (random.chance(200)) support.why_not = "not here";
      }
      side->rdma = random.chance(500);
      side->ucx_devices = random.chance(300);
      side->nccl_shares_gpu = random.chance(300);
    }
    question.trusted = random.chance(500);
    question.peer_access = random.chance(500);
    if (random.chance(300))
      question.named = static_cast<DirectPath>(1 + random.below(direct_paths));
    question.allow_fallback = random.chance(500);
    const auto choice = choose_paths(question);
    for (const auto path : choice.paths) {
      EXPECT_EQ(refusal_of(choice, path), "not refused");
      EXPECT_EQ(std::ranges::count(choice.paths, path), 1);
      const bool plain = path == nccl || path == gloo || path == ucx;
      EXPECT_TRUE(question.trusted || !plain || question.from.machine == question.to.machine);
    }
    for (const auto& each : choice.refusals) EXPECT_FALSE(each.why.empty());
    if (question.named && !question.allow_fallback) {
      EXPECT_EQ(choice.paths.size() + choice.refusals.size(), 1u);
    } else {
      EXPECT_THAT(choice.paths,
                  testing::Contains(question.from.process == question.to.process ? inproc : store));
    }
  }
}

}  // namespace
}  // namespace mobula::internal::transfer
