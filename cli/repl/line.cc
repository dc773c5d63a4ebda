#include "cli/repl/line.h"

#include <fmt/format.h>

#include <cctype>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/text/json_writer.h"

namespace mobula::internal::cli::repl {
namespace {

constexpr std::size_t longest_shown = 40;
constexpr int deepest_json = 256;

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f';
}
bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string cut(std::string text) {
  if (text.size() > longest_shown) text = text.substr(0, longest_shown) + "…";
  return text;
}

// A line that is read from left to right. After the first fault, the cursor is at the end.
class Cursor {
 public:
  Cursor(const std::string& line, std::size_t begin, std::size_t end)
      : line_(line), at_(begin), end_(end) {}

  bool done() const { return at_ >= end_; }
  char peek() const { return done() ? '\0' : line_[at_]; }
  char take() { return line_[at_++]; }
  std::size_t at() const { return at_; }
  std::string from(std::size_t begin) const { return line_.substr(begin, at_ - begin); }
  std::string rest() const { return line_.substr(at_, end_ - at_); }
  void skip_blanks() {
    while (!done() && is_blank(peek())) ++at_;
  }
  bool accept(char c) {
    skip_blanks();
    if (peek() != c || done()) return false;
    ++at_;
    return true;
  }

  // Returns an empty text if no name follows.
  std::string name() {
    skip_blanks();
    const std::size_t begin = at_;
    if (begins_name(peek())) {
      while (!done() && is_of_name(peek())) ++at_;
    }
    return from(begin);
  }
  // Reads up to a blank or one of `stops`.
  std::string word(std::string_view stops) {
    skip_blanks();
    const std::size_t begin = at_;
    while (!done() && !is_blank(peek()) && stops.find(peek()) == std::string_view::npos) ++at_;
    return from(begin);
  }
  // Accepts `word` if it is next, as a whole word.
  bool accept_word(std::string_view word) {
    skip_blanks();
    if (std::string_view(line_).substr(at_, end_ - at_).substr(0, word.size()) != word)
      return false;
    const std::size_t after = at_ + word.size();
    if (after < end_ && !is_blank(line_[after])) return false;
    at_ = after;
    return true;
  }

  void refuse(const std::string& why) {
    if (!why_)
      why_ = failure(ErrorCode::invalid_argument, fmt::format("column {}: {}", at_ + 1, why));
    at_ = end_;
  }
  const std::optional<Failure>& why() const { return why_; }

  // Returns the text of a JSON value; its contents are checked when it is parsed.
  std::string json_text(std::string_view stops) {
    skip_blanks();
    const std::size_t begin = at_;
    int depth = 0;
    bool in_text = false;
    while (!done()) {
      const char c = peek();
      if (in_text) {
        if (c == '\\' && at_ + 1 < end_)
          ++at_;
        else if (c == '"')
          in_text = false;
      } else if (c == '"') {
        in_text = true;
      } else if (c == '[' || c == '{') {
        if (++depth > deepest_json) {
          refuse(fmt::format("JSON nests deeper than {} levels", deepest_json));
          return {};
        }
      } else if (depth > 0 && (c == ']' || c == '}')) {
        --depth;
      } else if (depth == 0 && (is_blank(c) || stops.find(c) != std::string_view::npos)) {
        break;
      }
      ++at_;
      if (depth == 0 && !in_text && (c == '"' || c == ']' || c == '}')) break;
    }
    return from(begin);
  }

 private:
  const std::string& line_;
  std::size_t at_;
  std::size_t end_;
  std::optional<Failure> why_;
};

Argument read_argument(Cursor& in, std::string_view stops) {
  in.skip_blanks();
  const std::size_t begin = in.at();
  const std::string text = in.json_text(stops);
  if (nlohmann::json::accept(text)) return {text, {}};
  std::string_view name = text;
  if (name.starts_with('$')) name.remove_prefix(1);
  bool is_name = !name.empty() && begins_name(name.front());
  for (const char c : name) is_name = is_name && is_of_name(c);
  if (is_name) return {{}, std::string(name)};
  in.refuse(text.empty() ? "missing argument"
                         : fmt::format("'{}' (from column {}) is neither JSON nor the name of a "
                                       "result; quote text \"like this\"",
                                       cut(text), begin + 1));
  return {};
}

// (1, 2), or 1 2 up to `with`.
std::vector<Argument> read_arguments(Cursor& in) {
  std::vector<Argument> arguments;
  if (in.accept('(')) {
    if (in.accept(')')) return arguments;
    for (;;) {
      arguments.push_back(read_argument(in, ",)"));
      if (in.accept(')')) return arguments;
      if (!in.accept(',')) {
        in.refuse("missing ',' or ')'");
        return arguments;
      }
    }
  }
  for (;;) {
    in.skip_blanks();
    if (in.done()) return arguments;
    Cursor ahead = in;
    if (ahead.accept_word("with")) return arguments;
    arguments.push_back(read_argument(in, ""));
  }
}

std::vector<Option> read_options(Cursor& in) {
  std::vector<Option> options;
  if (!in.accept_word("with")) return options;
  do {
    Option option;
    option.name = in.name();
    if (option.name.empty() || !in.accept('=')) {
      in.refuse("expected options after 'with', such as num_gpus=0.5");
      return options;
    }
    const std::string value = in.json_text("");
    if (value.empty()) in.refuse(fmt::format("{} has no value", option.name));
    option.json = nlohmann::json::accept(value) ? value : json_text(nlohmann::json(value));
    options.push_back(std::move(option));
    in.skip_blanks();
  } while (!in.done());
  return options;
}

void require_end(Cursor& in) {
  in.skip_blanks();
  if (!in.done()) in.refuse(fmt::format("unexpected '{}'", cut(in.rest())));
}

Call read_call(Cursor& in, std::string let) {
  Call call;
  call.let = std::move(let);
  if (in.accept_word("call")) {
    call.function = in.word("(");
    if (call.function.empty()) in.refuse("missing function; \\d lists them");
  } else {
    call.object = in.name();
    if (call.object.empty() || !in.accept('.')) {
      in.refuse(call.let.empty() ? "expected `call FUNCTION ARGUMENTS…` or ACTOR.METHOD(ARGUMENTS…)"
                                 : "expected `call FUNCTION ARGUMENTS…`, ACTOR.METHOD(ARGUMENTS…), "
                                   "or submit, run, or batch");
    } else {
      call.function = in.name();
      if (call.function.empty() || in.peek() != '(')
        in.refuse("missing parentheses; write ACTOR.METHOD(ARGUMENTS…)");
    }
  }
  call.arguments = read_arguments(in);
  call.options = read_options(in);
  require_end(in);
  return call;
}

// Reads words as a shell does.
std::vector<std::string> read_words(Cursor& in) {
  std::vector<std::string> words;
  for (in.skip_blanks(); !in.done(); in.skip_blanks()) {
    std::string word;
    while (!in.done() && !is_blank(in.peek())) {
      const std::size_t begin = in.at();
      const char c = in.take();
      if (c == '\\') {
        if (in.done())
          in.refuse("missing character after the backslash");
        else
          word += in.take();
      } else if (c == '\'' || c == '"') {
        while (!in.done() && in.peek() != c) {
          if (c == '"' && in.peek() == '\\') {
            in.take();
            if (in.done()) break;
            if (in.peek() != '"' && in.peek() != '\\') word += '\\';
          }
          word += in.take();
        }
        if (in.done())
          in.refuse(fmt::format("quote of column {} is not closed", begin + 1));
        else
          in.take();
      } else {
        word += c;
      }
    }
    words.push_back(std::move(word));
  }
  return words;
}

// Matches NAME.NAME( at the beginning.
bool is_method_call(Cursor in) {
  const std::string object = in.name();
  return !object.empty() && in.peek() == '.' && in.accept('.') && !in.name().empty() &&
         in.peek() == '(';
}

Statement read_let(Cursor& in) {
  const std::string name = in.name();
  if (name.empty() || !in.accept('=')) {
    in.refuse(
        "expected let NAME = call FUNCTION ARGUMENTS…, let NAME = ACTOR.METHOD(ARGUMENTS…), or let "
        "NAME = submit … (run, batch)");
    return Leave{};
  }
  for (const char* submits : {"submit", "run", "batch"}) {
    Cursor ahead = in;
    if (ahead.accept_word(submits)) return LetJob{name, read_words(in)};
  }
  return read_call(in, name);
}

Statement read_actor(Cursor& in) {
  MakeActor actor;
  actor.name = in.name();
  if (actor.name.empty() || !in.accept('=')) {
    in.refuse("expected actor NAME = CLASS(ARGUMENTS…)");
    return Leave{};
  }
  actor.class_name = in.word("(");
  if (actor.class_name.empty()) in.refuse("missing class; \\d lists them");
  actor.arguments = read_arguments(in);
  actor.options = read_options(in);
  require_end(in);
  return actor;
}

// `get x` is a request to the program, `get KIND ID` to the cluster.
bool is_get_of_result(Cursor in) {
  if (!in.accept_word("get")) return false;
  if (in.accept('$')) return true;
  if (in.name().empty()) return false;
  in.skip_blanks();
  return in.done();
}

Statement read_statement(Cursor& in) {
  in.skip_blanks();
  if (in.accept('\\')) {
    Meta meta;
    meta.name = in.word("");
    in.skip_blanks();
    meta.rest = in.rest();
    while (!meta.rest.empty() && is_blank(meta.rest.back())) meta.rest.pop_back();
    return meta;
  }
  if (is_method_call(in)) return read_call(in, {});
  if (is_get_of_result(in)) {
    in.accept_word("get");
    in.accept('$');
    Get get{in.name()};
    require_end(in);
    return get;
  }
  Cursor ahead = in;
  if (ahead.accept_word("call")) return read_call(in, {});
  if (in.accept_word("let")) return read_let(in);
  if (in.accept_word("actor")) return read_actor(in);
  if (in.accept_word("kill")) {
    Kill kill{in.name()};
    if (kill.name.empty()) in.refuse("missing actor; write kill ACTOR");
    require_end(in);
    return kill;
  }
  std::vector<std::string> words = read_words(in);
  if (words.empty()) return Command{};
  if (words.front() == "use") return Use{{words.begin() + 1, words.end()}};
  const bool leaves = words.size() == 1 && (words.front() == "exit" || words.front() == "quit");
  if (leaves) return Leave{};
  if (words.front() == "mobula" && words.size() > 1) words.erase(words.begin());
  return Command{std::move(words)};
}

// The end of the statement that begins at `begin`; '#' ends the line.
struct Piece {
  std::size_t end = 0;
  bool last = false;
};

Piece piece_from(const std::string& line, std::size_t begin) {
  char quote = '\0';
  int depth = 0;
  for (std::size_t at = begin; at < line.size(); ++at) {
    const char c = line[at];
    const bool first = at == begin || is_blank(line[at - 1]);
    if (quote != '\0') {
      if (c == '\\' && quote == '"')
        ++at;
      else if (c == quote)
        quote = '\0';
    } else if (c == '\\') {
      ++at;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{' || c == '(') {
      ++depth;
    } else if (c == ']' || c == '}' || c == ')') {
      depth -= depth > 0 ? 1 : 0;
    } else if (c == ';' && depth == 0) {
      return {at, false};
    } else if (c == '#' && first && depth == 0) {
      return {at, true};
    }
  }
  return {line.size(), true};
}

// `\! COMMAND`: the rest of the line is a shell command.
bool is_for_the_shell(const std::string& line, std::size_t begin) {
  while (begin < line.size() && is_blank(line[begin])) ++begin;
  return line.compare(begin, 2, "\\!") == 0;
}

}  // namespace

Result<std::vector<Statement>> parse_line(const std::string& line) {
  if (line.size() > longest_line) {
    return failure(
        ErrorCode::invalid_argument,
        fmt::format("line: {} bytes are above the limit of {}", line.size(), longest_line));
  }
  if (const auto zero = line.find('\0'); zero != std::string::npos) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("column {}: a zero byte is not text", zero + 1));
  }
  std::vector<Statement> statements;
  for (std::size_t begin = 0; begin <= line.size();) {
    const Piece piece =
        is_for_the_shell(line, begin) ? Piece{line.size(), true} : piece_from(line, begin);
    Cursor in(line, begin, piece.end);
    Statement statement = read_statement(in);
    if (in.why()) return *in.why();
    const auto* command = std::get_if<Command>(&statement);
    if (command == nullptr || !command->words.empty()) statements.push_back(std::move(statement));
    if (piece.last) break;
    begin = piece.end + 1;
  }
  return statements;
}

Result<std::vector<std::string>> words_of(const std::string& text) {
  Cursor in(text, 0, text.size());
  auto words = read_words(in);
  if (in.why()) return *in.why();
  return words;
}

std::string quoted_word(const std::string& word) {
  const auto is_safe = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_-./:=,@%+").find(c) != std::string_view::npos ||
           (static_cast<unsigned char>(c) & 0x80) != 0;
  };
  bool safe = !word.empty();
  for (const char c : word) safe = safe && is_safe(c);
  if (safe) return word;
  std::string text = "'";
  for (const char c : word) {
    if (c == '\'')
      text += "'\\''";
    else
      text += c;
  }
  return text + "'";
}

}  // namespace mobula::internal::cli::repl
