# Writes OUT, a C++ source with the bytes of the files of the web page: each as it is, and
# compressed by gzip. Usage: cmake -DOUT=FILE -DGZIP=PROGRAM "-DFILES=a;b" -P embed.cmake
function(append_bytes name file)
  file(READ "${file}" hex HEX)
  string(LENGTH "${hex}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  # A line per 32 bytes, because compilers and tools are slow with very long lines.
  string(REPEAT "0x..," 32 line)
  string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
  set(text "${text}const unsigned char ${name}[] = {\n${bytes}};\n" PARENT_SCOPE)
endfunction()

set(text "#include \"head/http/page_assets.h\"\n\nnamespace mobula::internal::head {\nnamespace {\n\n")
set(rows "")
foreach(file IN LISTS FILES)
  cmake_path(GET file FILENAME name)
  string(MAKE_C_IDENTIFIER "${name}" id)
  execute_process(COMMAND "${GZIP}" -9nc "${file}" OUTPUT_FILE "${OUT}.gz" COMMAND_ERROR_IS_FATAL ANY)
  append_bytes(${id} "${file}")
  append_bytes(${id}_gzip "${OUT}.gz")
  file(REMOVE "${OUT}.gz")
  file(SHA256 "${file}" hash)
  string(SUBSTRING "${hash}" 0 16 tag)
  string(APPEND rows "    {\"${name}\", \"${tag}\", {reinterpret_cast<const char*>(${id}), sizeof ${id}},\n"
         "     {reinterpret_cast<const char*>(${id}_gzip), sizeof ${id}_gzip}},\n")
endforeach()
string(APPEND text "\nconst PageFile files[] = {\n${rows}};\n\n}  // namespace\n\n"
       "std::span<const PageFile> page_files() { return files; }\n\n}  // namespace mobula::internal::head\n")
file(WRITE "${OUT}" "${text}")
