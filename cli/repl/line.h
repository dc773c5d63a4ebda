// The language of `mobula repl`: one line as statements. Commands of the command line, `\name` of
// the console, and requests to a user's program.
// Thread: any; pure.
// Errors: invalid_argument with the column.
#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"

namespace mobula::internal::cli::repl {

inline constexpr std::size_t longest_line = std::size_t{256} << 10;

// Words of a command, without `mobula`.
struct Command {
  std::vector<std::string> words{};
};

// \timing, \o json, \watch 2 list nodes: `rest` is the text after the name; for \! up to the end of
// the line.
struct Meta {
  std::string name{};
  std::string rest{};
};

// JSON, or the name of a result.
struct Argument {
  std::string json{};
  std::string name{};
};

// An option after `with`.
struct Option {
  std::string name{};
  std::string json{};
};

// call f 1 2 with num_gpus=0.5, or c.add(5), optionally after `let x =`.
struct Call {
  std::string let{};     // empty: prints the value
  std::string object{};  // the actor; empty: a function
  std::string function{};
  std::vector<Argument> arguments{};
  std::vector<Option> options{};
};

// actor c = Counter(10) with max_restarts=3
struct MakeActor {
  std::string name{};
  std::string class_name{};
  std::vector<Argument> arguments{};
  std::vector<Option> options{};
};

// let r = submit …, let r = run …: the command, and the name for the id of its job.
struct LetJob {
  std::string name{};
  std::vector<std::string> words{};
};

struct Get {
  std::string name{};
};
struct Kill {
  std::string name{};
};
// use PROGRAM ARGUMENTS…
struct Use {
  std::vector<std::string> words{};
};
struct Leave {};

using Statement = std::variant<Command, Meta, Call, MakeActor, LetJob, Get, Kill, Use, Leave>;

// Statements are separated by ';' and end at '#', outside quotes and brackets. invalid_argument
// names the column (from 1) and the fault. A line longer than longest_line is rejected with its
// length.
Result<std::vector<Statement>> parse_line(const std::string& line);

// Splits text into words: quotes and backslashes as in a shell, without expansions.
Result<std::vector<std::string>> words_of(const std::string& text);

// Returns text that words_of() reads as this one word.
std::string quoted_word(const std::string& word);

}  // namespace mobula::internal::cli::repl
