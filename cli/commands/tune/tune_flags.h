// Flags of `mobula tune`, and the grammar of its commands.
// Thread: main, at start.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace mobula::internal::cli {

struct TuneFlags {
  std::string action{};   // list, status, trials, show, best, explain, stop, …
  std::string storage{};  // empty: default_storage()
  std::string name{};     // name of the experiment
  std::int64_t trial = -1;
  std::int64_t count = 5;  // best
  std::int64_t rows = 0;   // trials; 0: all
  std::string file{};      // plot, export, import
  std::string format{};    // export
  std::string source{};    // import: the other program
  std::string study{};     // import: name of the study in its file
};

// Options that other commands share; the grammar of the program owns them.
struct TuneSharedOptions {
  std::function<void(CLI::App&)> add_output;  // -o
  std::function<void(CLI::App&)> add_table;   // --columns, --sort-by, …
  std::function<void(CLI::App&)> add_filter;  // --filter
  std::function<void(CLI::App&)> add_watch;   // --watch
};

void add_tune_commands(CLI::App& app, TuneFlags& flags, const TuneSharedOptions& shared);

}  // namespace mobula::internal::cli
