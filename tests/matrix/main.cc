// Prints the table of proven properties of transport paths, from the files that passing tests
// wrote. Fails and names each required property that the present programs have not proven.
//   transport_matrix [--large] [--sanitized] [--without WAY]... [FOLDER...]
// A property that could not be tested on this machine is shown as ? and does not count as missing.
// Paths that were not built are omitted.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "matrix/rows.h"

namespace mobula::matrix {
namespace {

namespace fs = std::filesystem;

using Proofs = std::map<std::pair<Part, Column>, std::set<char>>;

struct Seen {
  Proofs proofs;
  std::set<std::string> stale;  // programs that were built after their tests ran
};

void read_file(const fs::path& path, Seen& to) {
  std::ifstream file(path);
  std::string word, program;
  file >> word >> program;
  std::error_code gone;
  const auto built = fs::last_write_time(program, gone);
  if (word != "of" || gone || built > fs::last_write_time(path)) {
    to.stale.insert(path.parent_path().filename());
    return;
  }
  int column = 0;
  for (char proof = 0; file >> word >> column >> proof;) {
    for (const PartRow& each : parts) {
      if (each.name == word) to.proofs[{each.part, static_cast<Column>(column)}].insert(proof);
    }
  }
}

Seen read_dirs(const std::vector<std::string>& directories) {
  Seen seen;
  for (const std::string& directory : directories) {
    std::error_code none;
    for (const auto& each : fs::recursive_directory_iterator(directory, none)) {
      if (each.is_regular_file()) read_file(each.path(), seen);
    }
  }
  return seen;
}

// Letters of the proofs that a part requires for a path and that are missing.
std::string lacking(const Seen& seen, const PartRow& part, std::size_t column) {
  if (column >= wanted_columns) return {};
  const char wanted = part.wanted[column];
  const auto at = seen.proofs.find({part.part, static_cast<Column>(column)});
  std::string letters;
  for (const char each : {'R', 'S'}) {
    const bool is_wanted = wanted == each || wanted == 'B';
    const bool is_there =
        at != seen.proofs.end() && (at->second.contains(each) || at->second.contains('?'));
    if (is_wanted && !is_there) letters += each;
  }
  return letters;
}

struct Cell {
  std::string text;
  std::vector<std::string> missing, left_out;
};

Cell cell_of(const Seen& seen, std::size_t row, std::size_t column,
             const std::set<RunWhen>& enabled) {
  Cell cell;
  std::set<char> letters;
  for (const PartRow& part : parts) {
    if (part.row != static_cast<int>(row)) continue;
    if (const auto at = seen.proofs.find({part.part, static_cast<Column>(column)});
        at != seen.proofs.end()) {
      letters.insert(at->second.begin(), at->second.end());
    }
    const std::string lacks = lacking(seen, part, column);
    if (lacks.empty()) continue;
    auto& names = enabled.contains(part.run_when) ? cell.missing : cell.left_out;
    names.push_back(fmt::format("{} with {} ({})", part.name, column_names[column], lacks));
  }
  for (const char each : letters)
    cell.text += cell.text.empty() ? std::string(1, each) : std::string(" ") + each;
  if (!cell.missing.empty()) cell.text += cell.text.empty() ? "MISSING" : " MISSING";
  if (cell.text.empty()) cell.text = cell.left_out.empty() ? "–" : "not run";
  return cell;
}

void tell(const char* what, const std::vector<std::string>& all) {
  if (all.empty()) return;
  fmt::print("\n{}:\n", what);
  for (const std::string& each : all) fmt::print("  {}\n", each);
}

int run(const std::vector<std::string>& words) {
  std::set<RunWhen> enabled{RunWhen::always};
  std::vector<std::string> directories;
  std::set<std::string_view> without;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--large")
      enabled.insert(RunWhen::large);
    else if (words[i] == "--sanitized")
      enabled.insert(RunWhen::sanitized);
    else if (words[i] == "--without" && i + 1 < words.size())
      without.insert(words[++i]);
    else
      directories.push_back(words[i]);
  }
  const Seen seen = read_dirs(directories);
  std::vector<std::size_t> columns;
  for (std::size_t i = 0; i < column_names.size(); ++i) {
    bool used = i < wanted_columns && !without.contains(column_names[i]);
    for (const auto& [of, letters] : seen.proofs)
      used = used || static_cast<std::size_t>(of.second) == i;
    if (used) columns.push_back(i);
  }
  std::vector<std::string> missing, left_out;
  for (const std::string_view each : without) fmt::print("The plugin {} was not built.\n", each);
  fmt::print(
      "R really, S on simulated GPUs, – not applicable, ? could not be run here\n\n| behavior |");
  for (const std::size_t each : columns) fmt::print(" {} |", column_names[each]);
  fmt::print("\n| --- |");
  for (std::size_t i = 0; i < columns.size(); ++i) fmt::print(" --- |");
  for (std::size_t row = 0; row < rows.size(); ++row) {
    fmt::print("\n| {} |", rows[row].behaviour);
    for (const std::size_t column : columns) {
      const Cell cell = cell_of(seen, row, column, enabled);
      fmt::print(" {} |", cell.text);
      missing.insert(missing.end(), cell.missing.begin(), cell.missing.end());
      left_out.insert(left_out.end(), cell.left_out.begin(), cell.left_out.end());
    }
  }
  fmt::print("\n");
  tell("Not asked for in this run, and not shown", left_out);
  tell("MISSING", missing);
  if (!missing.empty()) {
    tell("Built after their tests ran, so that these do not count",
         {seen.stale.begin(), seen.stale.end()});
    fmt::print(
        "\nTests fill the table when they pass: "
        "ctest -R "
        "'^(direct_test|exchange_test|path_choice_test|pull_queue_test|transport_test|e2e_test)'"
        "\n");
  }
  return missing.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace mobula::matrix

int main(int count, char** words) { return mobula::matrix::run({words + 1, words + count}); }
