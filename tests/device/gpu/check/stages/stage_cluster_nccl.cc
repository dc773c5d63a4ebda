// The stage about NCCL in the product: actors with fractions of the GPU, in a cluster of one head
// and one agent, whose programs are in the bundle.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/model/nccl_rank.h"
#include "device/gpu/check/cluster.h"
#include "device/gpu/check/peers.h"
#include "device/gpu/nccl_library.h"

namespace mobula::internal::gpu_check {
namespace {

namespace fs = std::filesystem;

// Warnings that NCCL wrote in the processes of the cluster, which explain a failed check.
void report_warnings(Findings& findings, const std::string& directory) {
  std::error_code ignored;
  for (const auto& each : fs::directory_iterator(directory, ignored)) {
    if (!each.path().filename().string().starts_with("nccl.")) continue;
    std::ifstream file(each.path());
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    if (!text.empty()) findings.value("NCCL in one process", tail_of(text));
  }
}

}  // namespace

void share_gpu_in_cluster(Findings& findings) {
  findings.scope(
      "actors of one GPU, which take turns on it: no figure says anything about NCCL "
      "between GPUs");
  const auto library = NcclLibrary::open();
  if (!library) return findings.cannot("no NCCL: " + library.error().text);
  const int version = (*library)->version();
  // A driver that gives no context makes every scenario wait for its timeout.
  if (auto context = opened(findings); !context) return;
  findings.value("version of NCCL", nccl_version_text(version));
  Cluster cluster(findings);
  cluster.set("NCCL_DEBUG", "WARN");
  cluster.set("NCCL_DEBUG_FILE", cluster.directory() + "/nccl.%p");
  if (!cluster.start({})) return;
  cluster.scenario(version < first_nccl_with_sharing ? "nccl-refused" : "nccl-shared");
  if (findings.exit_code() != 0) report_warnings(findings, cluster.directory());
}

}  // namespace mobula::internal::gpu_check
