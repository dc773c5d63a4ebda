// The stage with PyTorch: tensors of Mobula and of the machine's PyTorch, exchanged by DLPack.
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "device/gpu/check/python/python_check.h"

namespace mobula::internal::gpu_check {
namespace {

constexpr int no_such_command = 127, timed_out = 124;

std::string quoted(const std::string& word) { return "'" + word + "'"; }

}  // namespace

PythonEnd run_python(Findings& findings, const std::vector<std::string>& words,
                     const std::map<std::string, std::string>& variables) {
  const auto directory = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const char* const python = std::getenv("MOBULA_CHECK_PYTHON");
  const char* const library_path =
      std::getenv("MOBULA_CHECK_LIBRARY_PATH");  // path of the machine, kept by `run`
  const auto limit_s = std::max<std::int64_t>(
      1, std::chrono::duration_cast<std::chrono::seconds>(findings.left()).count() - 1);
  std::string command = "env -u LD_LIBRARY_PATH";
  if (library_path != nullptr && *library_path != 0)
    command += " " + quoted(std::string("LD_LIBRARY_PATH=") + library_path);
  for (const auto& [name, value] : variables) {
    if (name != "LD_PRELOAD") command += " " + quoted(name + "=" + value);
  }
  command += fmt::format(" timeout -k 1 {}", limit_s);
  if (const auto preload = variables.find("LD_PRELOAD"); preload != variables.end())
    command += " env " + quoted("LD_PRELOAD=" + preload->second);
  command += " " + (python == nullptr ? std::string("python3") : quoted(python)) + " " +
             quoted(directory / words.front());
  for (std::size_t i = 1; i < words.size(); ++i) command += " " + quoted(words[i]);
  FILE* const out = ::popen((command + " 2>&1").c_str(), "r");
  if (out == nullptr) {
    findings.cannot("no shell starts");
    return PythonEnd::cannot;
  }
  char* line = nullptr;
  std::size_t capacity = 0;
  std::string last;
  bool cannot = false;
  while (::getline(&line, &capacity, out) > 0) {
    last = line;
    const auto json = Json::parse(line, nullptr, false);
    if (!json.is_object()) continue;
    if (json.contains("cannot")) {
      cannot = true;
      findings.cannot(json["cannot"]);
    } else if (json.contains("holds")) {
      findings.holds(json["what"], json["holds"].get<bool>(), json.value("seen", ""));
    } else if (json.contains("value")) {
      findings.value(json["what"], json["value"], json.value("unit", ""));
    }
  }
  std::free(line);
  const int status = ::pclose(out);
  while (!last.empty() && last.back() == '\n') last.pop_back();
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (code == no_such_command) {
    findings.cannot("this machine has no Python: " + last);
    return PythonEnd::cannot;
  }
  if (cannot) return PythonEnd::cannot;
  std::string name =
      words.front() +
      (words.size() > 1 && words[1].find('/') == std::string::npos ? " " + words[1] : "");
  if (code == timed_out) last = "no time was left; " + last;
  findings.holds(name + " ran to its end", code == 0, code == 0 ? "" : last);
  return PythonEnd::ran;
}

void exchange_with_torch(Findings& findings) {
  const auto directory = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  (void)run_python(findings, {"torch_check.py", directory / "libmobula_torch_shim.so"});
}

}  // namespace mobula::internal::gpu_check
