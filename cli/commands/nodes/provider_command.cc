#include "cli/commands/nodes/provider_command.h"

#include <filesystem>

#include "cli/exit_code.h"
#include "deploy/provider/kubernetes_provider.h"
#include "deploy/provider/local_provider.h"
#include "deploy/provider/serve_provider.h"
#include "deploy/provider/slurm_provider.h"

namespace mobula::internal::cli {
namespace {

// The path of this program, for agents that outlive this process.
std::string own_path() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).string();
}

}  // namespace

int answer_provider_call(const CommandLine& line) {
  const auto answer = [&](const fleet::ProviderRequest& request) {
    if (line.kind == "kubernetes") return provider::answer_kubernetes(request);
    return line.kind == "slurm" ? provider::answer_slurm(request, own_path())
                                : provider::answer_local(request, own_path());
  };
  return provider::serve_provider(answer, line.method);
}

}  // namespace mobula::internal::cli
