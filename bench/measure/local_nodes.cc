#include "bench/measure/local_nodes.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

namespace mobula::bench {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr const char* label = "bench-node";

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Runs the program in the same directory and waits for its exit. `output` receives its output.
int run(const Words& words, const fs::path& output) {
  const std::string program =
      (fs::read_symlink("/proc/self/exe").parent_path() / "mobula").string();
  std::vector<char*> arguments{const_cast<char*>(program.c_str())};
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    if (std::freopen(output.c_str(), "w", stdout) == nullptr || ::dup2(1, 2) < 0) ::_exit(126);
    ::execv(program.c_str(), arguments.data());
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

LocalNodes::LocalNodes(int count, const Words& options) {
  std::string pattern = (fs::temp_directory_path() / "mobula-nodes-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    throw std::runtime_error("cannot create a directory like " + pattern);
  directory_ = pattern;
  const fs::path output = directory_ / "output";
  Words join{"--head"};
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    Words words{"start"};
    words.insert(words.end(), join.begin(), join.end());
    words.insert(words.end(), options.begin(), options.end());
    for (const auto& word :
         {std::string("--num-cpus"), std::string("1"), std::string("--labels"),
          label + ("=" + std::to_string(i)), std::string("--state-dir"), state_of(i)}) {
      words.push_back(word);
    }
    if (run(words, output) != 0)
      throw std::runtime_error("a node does not start: " + text_of(output));
    ++started_;
    if (i > 0) continue;
    const auto head = nlohmann::json::parse(text_of(state_of(0) + "/default/head/head.json"));
    const std::string address = head.at("address");
    join = {"--address", address, "--key", state_of(0) + "/default/default.key"};
    ::setenv("MOBULA_ADDRESS", address.c_str(), 1);
    ::setenv("MOBULA_STATE_DIR", state_of(0).c_str(), 1);
  }
}

LocalNodes::~LocalNodes() {
  for (std::size_t i = started_; i-- > 0;)
    run({"stop", "--grace", "2", "--state-dir", state_of(i)}, directory_ / "output");
  ::setenv("MOBULA_ADDRESS", "local", 1);
  ::unsetenv("MOBULA_STATE_DIR");
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

}  // namespace mobula::bench
