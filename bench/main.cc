// mobula-bench, which `mobula bench` runs: microbenchmarks next to the machine's floors.
#include <CLI/CLI.hpp>

#include <mobula/mobula.h>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/text/json_writer.h"
#include "bench/measure/profile.h"
#include "bench/suite/suite.h"

namespace mobula::bench {
namespace {

using Json = nlohmann::ordered_json;
using namespace std::chrono_literals;

Json json_of(const Figure& figure) {
  Json item = {{"name", figure.name}, {"key", figure.key},   {"mean", figure.mean},
               {"sd", figure.sd},     {"unit", figure.unit}, {"runs", figure.runs}};
  if (figure.floor) {
    item["floor"] = {
        {"name", figure.floor->name}, {"value", figure.floor->value}, {"unit", figure.floor->unit}};
  }
  if (figure.ratio_to_floor) item["ratio_to_floor"] = *figure.ratio_to_floor;
  return item;
}

void print_row(const Figure& figure) {
  std::printf("%-50s %12.5g %-5s", figure.name.c_str(), figure.mean, figure.unit.c_str());
  if (figure.sd > 0) std::printf(" sd %-9.3g", figure.sd);
  if (figure.ratio_to_floor) {
    std::printf(" %9.3g x floor: %s %.3g %s", *figure.ratio_to_floor, figure.floor->name.c_str(),
                figure.floor->value, figure.floor->unit.c_str());
  }
  std::printf("\n");
  std::fflush(stdout);
}

// Prints the stages of a call, the only table that is not a benchmark.
int run_profile(int calls, bool as_json) {
  std::vector<ProfileRow> rows;
  try {
    rows = profile(calls);
  } catch (const std::exception& why) {
    std::fprintf(stderr, "mobula: the profile failed: %s\n", why.what());
    return 1;
  }
  if (!as_json) {
    print_profile(rows);
    return 0;
  }
  Json items = Json::array();
  for (const auto& row : rows) {
    items.push_back({{"calls", row.kind},
                     {"stage", row.stage},
                     {"what", row.what},
                     {"median_us", row.median_us},
                     {"p90_us", row.p90_us},
                     {"count", row.calls}});
  }
  std::printf("%s\n",
              internal::json_text(
                  Json{{"apiVersion", "mobula/v1"}, {"kind", "Profile"}, {"items", items}}, 2)
                  .c_str());
  return 0;
}

std::vector<Benchmark> chosen(const std::vector<std::string>& names) {
  std::vector<Benchmark> all = scale_benchmarks();
  for (auto& one : scalability_benchmarks()) all.push_back(std::move(one));
  for (auto& one : benchmarks_between_nodes()) all.push_back(std::move(one));
  for (auto& one : parked_benchmarks()) all.push_back(std::move(one));
  for (auto& one : completion_benchmarks()) all.push_back(std::move(one));
  for (auto& one : deferred_benchmarks()) all.push_back(std::move(one));
  for (auto& one : stream_benchmarks()) all.push_back(std::move(one));
  for (auto& one : transport_benchmarks()) all.push_back(std::move(one));
  for (auto& one : collective_benchmarks()) all.push_back(std::move(one));
  for (auto& one : microbenchmarks()) all.push_back(std::move(one));
  if (names.empty()) return all;
  std::vector<Benchmark> some;
  for (auto& one : all) {
    for (const auto& name : names) {
      if (one.name.find(name) == std::string::npos) continue;
      some.push_back(one);
      break;
    }
  }
  return some;
}

struct Figures {
  Json items = Json::array();
  Json warnings = Json::array();
  int exit = 0;
};

void warn(Figures& figures, const std::string& text) {
  figures.warnings.push_back(text);
  std::fprintf(stderr, "mobula: %s\n", text.c_str());
  figures.exit = 1;
}

// Runs the benchmarks, and prints each figure at once unless it becomes part of a document. A full
// run fails if a figure exceeds its limit.
void run_all(const std::vector<Benchmark>& benchmarks, const Pace& pace, bool prints, bool full,
             Figures& figures) {
  for (const auto& one : benchmarks) {
    try {
      for (const auto& figure : one.run(pace)) {
        if (const auto why = why_beyond_limit(figure); full && !why.empty()) warn(figures, why);
        if (prints) {
          print_row(figure);
        } else {
          figures.items.push_back(json_of(figure));
        }
      }
    } catch (const std::exception& why) {
      warn(figures, one.name + " failed: " + why.what());
    }
  }
}

int run(int argc, char** argv) {
  CLI::App app("Measures this installation on this machine", "mobula bench");
  std::vector<std::string> names;
  std::string format = "table";
  bool list = false;
  bool quick = false;
  bool smoke = false;
  bool profiled = false;
  app.add_option("name", names, "only benchmarks whose name has one of these in it");
  app.add_option("-o,--output,--format", format, "table or json")
      ->check(CLI::IsMember({"table", "json"}));
  app.add_flag("--list", list, "the names");
  app.add_flag("--quick", quick, "shorter runs: for a first look, not for publishing");
  app.add_flag("--smoke", smoke,
               "as short as can be, with small batches: does everything still run?");
  app.add_flag("--profile", profiled,
               "where the time of one call goes, stage by stage, instead of benchmarks");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& why) {
    return app.exit(why) == 0 ? 0 : 2;
  }
  if (profiled) return run_profile(smoke ? 200 : quick ? 2'000 : 20'000, format == "json");
  const auto benchmarks = chosen(names);
  if (benchmarks.empty()) {
    std::fprintf(stderr, "mobula: no benchmark has such a name; see 'mobula bench --list'\n");
    return 7;
  }
  if (list) {
    for (const auto& one : benchmarks)
      std::printf("%-46s %s\n", one.name.c_str(), one.about.c_str());
    return 0;
  }
  Pace pace;
  if (quick) pace = {.settle = 500ms, .warm_up = 300ms, .run = 500ms};
  if (smoke) pace = {.settle = 0ms, .warm_up = 5ms, .run = 5ms, .runs = 2, .divisor = 100};

  Figures figures;
  const bool full = !quick && !smoke;
  if (!full) figures.warnings.push_back("shortened runs: not to be compared with others");
  run_all(benchmarks, pace, format != "json", full, figures);
  if (format == "json") {
    const Json document = {{"apiVersion", "mobula/v1"},
                           {"kind", "Benchmarks"},
                           {"items", figures.items},
                           {"warnings", figures.warnings}};
    std::printf("%s\n", internal::json_text(document, 2).c_str());
  }
  return figures.exit;
}

}  // namespace
}  // namespace mobula::bench

int main(int argc, char** argv) {
  // In an executor, init does not return.
  if (mobula::in_executor()) const auto cluster = mobula::init();
  // A benchmark starts its own cluster unless an address is given.
  const char* address = std::getenv("MOBULA_ADDRESS");
  if (address == nullptr || *address == '\0') ::setenv("MOBULA_ADDRESS", "local", 1);
  return mobula::bench::run(argc, argv);
}
