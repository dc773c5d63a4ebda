#include "simulated_gpu/settings.h"

#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <vector>

namespace simulated_gpu {
namespace {

std::vector<std::string> parts_of(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream all(text);
  for (std::string each; std::getline(all, each, at);) parts.push_back(each);
  return parts;
}

// Splits "name@3" and the text after the next ':'.
std::pair<std::pair<std::string, int>, int> numbered(const std::string& text) {
  const auto number = text.find('@');
  const auto status = text.find(':');
  if (number == std::string::npos) misuse(("a fault without its number: " + text).c_str());
  return {{text.substr(0, number), std::atoi(text.c_str() + number + 1)},
          status == std::string::npos ? 0 : std::atoi(text.c_str() + status + 1)};
}

void set(Settings& made, const std::string& key, const std::string& value) {
  const auto number = std::strtoull(value.c_str(), nullptr, 10);
  if (key == "directory")
    made.directory = value;
  else if (key == "count")
    made.count = static_cast<int>(number);
  else if (key == "memory")
    made.memory = number;
  else if (key == "context")
    made.context = number;
  else if (key == "communicator")
    made.communicator = number;
  else if (key == "driver")
    made.driver = static_cast<int>(number);
  else if (key == "nccl")
    made.nccl = static_cast<int>(number);
  else if (key == "seed")
    made.seed = number;
  else if (key == "late_us")
    made.late_us = number;
  else if (key == "init_ms")
    made.init_ms = number;
  else if (key == "hides_processes")
    made.hides_processes = number != 0;
  else if (key == "most_bytes")
    made.most_bytes = number;
  else if (key == "lacks")
    for (const auto& each : parts_of(value, ',')) made.lacks.insert(each);
  else if (key == "wraps")
    for (const auto& each : parts_of(value, ',')) made.wraps.insert(each);
  else if (key == "mig")
    for (const auto& each : parts_of(value, ',')) made.mig.insert(std::atoi(each.c_str()));
  else if (key == "fail")
    for (const auto& each : parts_of(value, ',')) made.fail.insert(numbered(each));
  else if (key == "hang")
    for (const auto& each : parts_of(value, ',')) made.hang.insert(numbered(each).first);
  else if (key == "peers") {
    made.all_peers = false;
    for (const auto& each : parts_of(value, ',')) {
      const auto ends = parts_of(each, '-');
      if (ends.size() != 2) continue;
      const int a = std::atoi(ends[0].c_str()), b = std::atoi(ends[1].c_str());
      made.peers.insert({a, b});
      made.peers.insert({b, a});
    }
  } else {
    misuse(("MOBULA_SIMULATED_GPU knows no " + key).c_str());
  }
}

Settings read() {
  Settings made;
  const char* const text = std::getenv("MOBULA_SIMULATED_GPU");
  std::istringstream words(text == nullptr ? "" : text);
  for (std::string word; words >> word;) {
    const auto at = word.find('=');
    if (at == std::string::npos)
      misuse(("MOBULA_SIMULATED_GPU is key=value; given: " + word).c_str());
    set(made, word.substr(0, at), word.substr(at + 1));
  }
  if (made.directory.empty()) misuse("MOBULA_SIMULATED_GPU needs the key `directory`");
  return made;
}

std::mutex counts_mutex;

int next_number(const std::string& of) {
  static std::map<std::string, int> counts;
  const std::scoped_lock lock(counts_mutex);
  return ++counts[of];
}

}  // namespace

const Settings& settings() {
  static const Settings made = read();
  return made;
}

int fault_of(const char* call) {
  if (settings().fail.empty()) return 0;
  const auto at = settings().fail.find({call, next_number(call)});
  return at == settings().fail.end() ? 0 : at->second;
}

bool hangs(const char* what) {
  return !settings().hang.empty() && settings().hang.contains({what, next_number(what)});
}

void misuse(const char* what) {
  std::fprintf(stderr, "SIMULATED GPU: misuse: %s\n", what);
  std::fflush(stderr);
  std::abort();
}

std::uint64_t chance_below(std::uint64_t bound) {
  static std::mutex mutex;
  static std::uint64_t state =
      settings().seed * 0x9e3779b97f4a7c15ULL ^ static_cast<std::uint64_t>(::getpid());
  const std::scoped_lock lock(mutex);
  state += 0x9e3779b97f4a7c15ULL;
  std::uint64_t word = state;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
  return bound == 0 ? 0 : (word ^ (word >> 31)) % bound;
}

}  // namespace simulated_gpu
