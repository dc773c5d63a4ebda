// The stage with PyTorch: a program of Python, if the machine has both, with the library of Mobula beside this one.
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>

#include "gpu/check/stages.h"

namespace mobula::internal::gpu_check {

void exchange_with_torch(Findings& findings) {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::string script = folder / "torch_check.py", shim = folder / "libmobula_torch_shim.so";
  const char* const python = std::getenv("MOBULA_CHECK_PYTHON");
  const std::string command = std::string(python == nullptr ? "python3" : python) + " '" + script + "' '" + shim + "' 2>&1";
  FILE* const out = ::popen(command.c_str(), "r");
  if (out == nullptr) return findings.cannot("no shell starts");
  char* line = nullptr;
  std::size_t room = 0;
  std::string last;
  bool cannot = false;
  while (::getline(&line, &room, out) > 0) {
    last = line;
    const auto json = Json::parse(line, nullptr, false);
    if (!json.is_object()) continue;
    if (json.contains("cannot")) {
      cannot = true;
      findings.cannot(json["cannot"]);
    } else if (json.contains("holds")) {
      findings.holds(json["what"], json["holds"].get<bool>(), json.value("seen", ""));
    } else if (json.contains("value")) {
      findings.value(json["what"], json["value"]);
    }
  }
  std::free(line);
  const int status = ::pclose(out);
  while (!last.empty() && last.back() == '\n') last.pop_back();
  constexpr int no_such_command = 127;
  if (WIFEXITED(status) && WEXITSTATUS(status) == no_such_command) return findings.cannot("this machine has no Python: " + last);
  if (cannot) return;
  findings.holds("the program came to its end", WIFEXITED(status) && WEXITSTATUS(status) == 0, last);
}

}  // namespace mobula::internal::gpu_check
