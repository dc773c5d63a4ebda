// Tokens as text: a written token parses, and truncated, altered, or other text is rejected.
#include "protocol/tickets/token.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace mobula::internal {
namespace {

Token token() {
  return {.cluster = "blue",
          .address = "10.0.0.1:7000",
          .head_curve_key = std::string(40, 'a'),
          .head_signing_key = std::string(64, 'b'),
          .role = "observer",
          .public_key = std::string(40, 'c'),
          .secret_key = "0123456789.-:+=^!/*?&<>()[]{}@%$#abcdefg"};
}

TEST(Token, ParsesWhatItPrints) {
  const std::string text = to_text(token());
  EXPECT_TRUE(text.starts_with(token_prefix));
  EXPECT_EQ(
      text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"),
      std::string::npos);
  const auto read = parse_token(text + "\n");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, token());
}

TEST(Token, RejectsDamagedTokenWithoutPrintingIt) {
  const std::string text = to_text(token());
  for (std::size_t size = 0; size < text.size(); ++size) {
    const auto read = parse_token(text.substr(0, size));
    ASSERT_FALSE(read.ok()) << size;
    if (size > 20) EXPECT_EQ(read.error().text.find(text.substr(10, size - 10)), std::string::npos);
  }
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = changed[at] == 'A' ? 'B' : 'A';
    const auto read = parse_token(changed);
    EXPECT_FALSE(read.ok()) << at;
  }
  EXPECT_FALSE(parse_token(text + "A").ok());
  EXPECT_FALSE(parse_token(std::string(token_prefix) + std::string(5000, 'A')).ok());
}

TEST(Token, RejectsInvalidKey) {
  for (const auto spoil :
       {+[](Token& each) { each.secret_key.pop_back(); },
        +[](Token& each) { each.secret_key[3] = ' '; },
        +[](Token& each) { each.head_curve_key.clear(); },
        +[](Token& each) { each.public_key += 'c'; }, +[](Token& each) { each.cluster = ".."; },
        +[](Token& each) { each.cluster = "a/../../b"; },
        +[](Token& each) { each.head_signing_key[0] = 'Z'; }}) {
    Token spoilt = token();
    spoil(spoilt);
    EXPECT_FALSE(parse_token(to_text(spoilt)).ok());
  }
}

TEST(Token, ReadsPrivateFileOnly) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("mobula-token-test-" + std::to_string(::getpid())))
          .string();
  ASSERT_TRUE(write_file(path, to_text(token()) + "\n", 0600).ok());
  EXPECT_EQ(token_of("@" + path).value(), token());
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  const auto refused = token_of("@" + path);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::permission_denied);
  EXPECT_NE(refused.error().text.find("chmod 600"), std::string::npos);
  ::unlink(path.c_str());
  EXPECT_FALSE(token_of("@" + path).ok());
}

}  // namespace
}  // namespace mobula::internal
