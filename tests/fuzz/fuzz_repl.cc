// Lines of a console and their completion: quoted words survive a round trip, and no line crashes
// the console.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "cli/command_line.h"
#include "cli/repl/completion.h"
#include "cli/repl/line.h"

namespace mobula::internal::cli::repl {
namespace {

void try_line(const std::string& line) {
  const auto statements = parse_line(line);
  if (!statements.ok() && statements.error().text.empty()) std::abort();
  if (line.find('\0') == std::string::npos) {
    const auto words = words_of(quoted_word(line));
    if (!words.ok() || words->size() != 1 || words->front() != line) std::abort();
  }
  static const CommandNode tree = command_tree();
  const Completion completion = complete(line, tree, {}, true);
  if (completion.from > line.size()) std::abort();
  for (const auto& word : completion.words) {
    if (!word.starts_with(line.substr(completion.from))) std::abort();
  }
}

}  // namespace
}  // namespace mobula::internal::cli::repl

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mobula::internal::cli::repl::try_line(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
