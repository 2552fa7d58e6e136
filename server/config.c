// SPDX-License-Identifier: Apache-2.0
#include "server/config.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/str.h"

enum { CONFIG_MAX_FILE_BYTES = 1 << 20, CONFIG_MAX_SETTINGS = 64 };

// Where a value came from, for messages: "--listen", "PODD_LISTEN",
// "listen in podd.conf:3".
struct config_reader {
    const struct pod_setting *table;
    size_t count;
    void *settings;
    bool set[CONFIG_MAX_SETTINGS]; // by a source of higher precedence
    bool set_now[CONFIG_MAX_SETTINGS];
};

static const struct pod_setting *config_find(const struct config_reader *reader,
                                             const char *name, size_t length)
{
    for (size_t i = 0; i < reader->count; i++) {
        const char *candidate = reader->table[i].name;
        if (strlen(candidate) == length && memcmp(candidate, name, length) == 0)
            return &reader->table[i];
    }
    return NULL;
}

static void *config_variable(const struct config_reader *reader,
                             const struct pod_setting *setting)
{
    return (char *)reader->settings + setting->offset;
}

static bool config_parse_flag(const char *value, bool *out)
{
    *out = strcmp(value, "true") == 0;
    return *out || strcmp(value, "false") == 0;
}

static bool config_append(struct pod_setting_list *list, const char *value)
{
    char *copy = pod_strdup(value);
    char **items = pod_realloc(list->items, list->count + 1, sizeof(*items));
    if (items != NULL)
        list->items = items;
    if (copy == NULL || items == NULL) {
        pod_free(copy);
        return false;
    }
    list->items[list->count++] = copy;
    return true;
}

static bool config_set_text(char **variable, const char *value)
{
    *variable = pod_strdup(value);
    return *variable != NULL;
}

static bool config_parse(const struct config_reader *reader,
                         const struct pod_setting *setting, const char *value)
{
    void *variable = config_variable(reader, setting);
    size_t length = strlen(value);
    switch (setting->type) {
    case POD_SETTING_FLAG:
        return config_parse_flag(value, variable);
    case POD_SETTING_TEXT:
        return length > 0 && config_set_text(variable, value);
    case POD_SETTING_LIST:
        return length > 0 && config_append(variable, value);
    case POD_SETTING_COUNT:
        return pod_parse_number(value, length, variable);
    case POD_SETTING_BYTES:
        return pod_parse_bytes(value, length, variable) &&
               *(uint64_t *)variable > 0;
    case POD_SETTING_DURATION:
        return pod_parse_duration(value, length, variable);
    }
    return false;
}

static const char *config_wanted(enum pod_setting_type type)
{
    switch (type) {
    case POD_SETTING_FLAG:
        return "true or false";
    case POD_SETTING_TEXT:
    case POD_SETTING_LIST:
        return "a text that is not empty";
    case POD_SETTING_COUNT:
        return "a number of at least 1";
    case POD_SETTING_BYTES:
        return "a size such as 4096 or 1GiB";
    case POD_SETTING_DURATION:
        return "a duration such as 250ms, 30s or 24h";
    }
    return "something else";
}

// Sets one value. `source` is how messages call the setting.
static enum pod_code config_set(struct config_reader *reader,
                                const struct pod_setting *setting,
                                const char *source, const char *value,
                                struct pod_err *err)
{
    size_t index = (size_t)(setting - reader->table);
    if (reader->set[index])
        return POD_OK;
    if (reader->set_now[index] && setting->type != POD_SETTING_LIST)
        return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "%s '%s': given twice", source, value);
    reader->set_now[index] = true;
    if (!config_parse(reader, setting, value))
        return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "%s '%s': expected %s", source, value,
                           config_wanted(setting->type));
    if (setting->check == NULL)
        return POD_OK;
    struct pod_err why = POD_ERR_NONE;
    if (setting->check(reader->settings, &why) == POD_OK)
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_PARAMETER, "%s '%s': %s", source,
                       value, why.text);
}

static void config_close_source(struct config_reader *reader)
{
    for (size_t i = 0; i < reader->count; i++) {
        reader->set[i] = reader->set[i] || reader->set_now[i];
        reader->set_now[i] = false;
    }
}

static enum pod_code config_flag(struct config_reader *reader, int argc,
                                 const char *const *argv, int *index,
                                 struct pod_err *err)
{
    const char *flag = argv[*index];
    if (strncmp(flag, "--", 2) != 0)
        return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "'%s': expected a flag; --help lists them", flag);
    const char *name = flag + 2;
    const char *equals = strchr(name, '=');
    size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
    const struct pod_setting *setting = config_find(reader, name, length);
    if (setting == NULL)
        return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "%s: unknown flag; --help lists them", flag);
    char source[80];
    (void)snprintf(source, sizeof(source), "--%s", setting->name);
    const char *value = "true";
    if (equals != NULL) {
        value = equals + 1;
    } else if (setting->type != POD_SETTING_FLAG) {
        if (*index + 1 >= argc)
            return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                               "%s: its value is missing, expected %s", source,
                               config_wanted(setting->type));
        value = argv[++*index];
    }
    return config_set(reader, setting, source, value, err);
}

static enum pod_code config_flags(struct config_reader *reader, int argc,
                                  const char *const *argv, struct pod_err *err)
{
    for (int i = 1; i < argc; i++) {
        enum pod_code code = config_flag(reader, argc, argv, &i, err);
        if (code != POD_OK)
            return code;
    }
    config_close_source(reader);
    return POD_OK;
}

static enum pod_code config_environment(struct config_reader *reader,
                                        const char *prefix, struct pod_err *err)
{
    for (size_t i = 0; i < reader->count; i++) {
        char name[80];
        (void)snprintf(name, sizeof(name), "%s_%s", prefix,
                       reader->table[i].name);
        for (char *p = name; *p != '\0'; p++)
            *p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
        const char *value = getenv(name);
        if (value == NULL)
            continue;
        enum pod_code code =
            config_set(reader, &reader->table[i], name, value, err);
        if (code != POD_OK)
            return code;
    }
    config_close_source(reader);
    return POD_OK;
}

static char *config_trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
    return text;
}

static enum pod_code config_line(struct config_reader *reader, const char *path,
                                 int number, char *line, struct pod_err *err)
{
    char *text = config_trim(line);
    if (*text == '\0' || *text == '#')
        return POD_OK;
    char *equals = strchr(text, '=');
    if (equals == NULL)
        return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "%s:%d: '%s': expected name = value", path, number,
                           text);
    *equals = '\0';
    const char *name = config_trim(text);
    const char *value = config_trim(equals + 1);
    const struct pod_setting *setting = config_find(reader, name, strlen(name));
    if (setting == NULL)
        return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "%s:%d: '%s': unknown setting", path, number, name);
    if (strcmp(name, "config") == 0)
        return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "%s:%d: 'config': a file cannot name another", path,
                           number);
    char source[300];
    (void)snprintf(source, sizeof(source), "%s in %s:%d", name, path, number);
    return config_set(reader, setting, source, value, err);
}

static enum pod_code config_file(struct config_reader *reader, const char *path,
                                 struct pod_err *err)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return pod_err_set(err, POD_REASON_BAD_PARAMETER, "--config '%s': %s",
                           path, strerror(errno));
    enum pod_code code = POD_OK;
    char *line = NULL;
    size_t capacity = 0;
    size_t total = 0;
    int number = 0;
    ssize_t length;
    while (code == POD_OK && (length = getline(&line, &capacity, file)) > 0) {
        total += (size_t)length;
        if (total > CONFIG_MAX_FILE_BYTES)
            code = pod_err_set(err, POD_REASON_BAD_PARAMETER,
                               "--config '%s': larger than 1 MiB", path);
        else if (strlen(line) != (size_t)length)
            code = pod_err_set(err, POD_REASON_BAD_PARAMETER,
                               "%s:%d: has a zero byte", path, number + 1);
        else
            code = config_line(reader, path, ++number, line, err);
    }
    if (code == POD_OK && ferror(file))
        code = pod_err_set(err, POD_REASON_BAD_PARAMETER, "--config '%s': %s",
                           path, strerror(errno));
    free(line);
    (void)fclose(file);
    config_close_source(reader);
    return code;
}

enum pod_code pod_config_read(const struct pod_setting *table, size_t count,
                              const char *prefix, int argc,
                              const char *const *argv, void *settings,
                              struct pod_err *err)
{
    struct config_reader reader = {
        .table = table, .count = count, .settings = settings};
    if (count > CONFIG_MAX_SETTINGS)
        abort(); // a table of ours that outgrew the reader
    enum pod_code code = config_flags(&reader, argc, argv, err);
    if (code == POD_OK)
        code = config_environment(&reader, prefix, err);
    const struct pod_setting *config = config_find(&reader, "config", 6);
    if (code != POD_OK || config == NULL)
        return code;
    const char *path = *(char **)config_variable(&reader, config);
    return path != NULL ? config_file(&reader, path, err) : POD_OK;
}

void pod_config_fini(const struct pod_setting *table, size_t count,
                     void *settings)
{
    for (size_t i = 0; i < count; i++) {
        void *variable = (char *)settings + table[i].offset;
        if (table[i].type == POD_SETTING_TEXT)
            pod_free(*(char **)variable);
        if (table[i].type != POD_SETTING_LIST)
            continue;
        struct pod_setting_list *list = variable;
        for (size_t j = 0; j < list->count; j++)
            pod_free(list->items[j]);
        pod_free(list->items);
    }
}

// ------------------------------------------------------------------- showing

static void config_put(struct pod_str *out, const char *name, const char *value)
{
    pod_str_printf(out, "%s%s=%s", out->length > 0 ? " " : "", name, value);
}

static void config_put_setting(struct pod_str *out,
                               const struct pod_setting *setting,
                               const void *at)
{
    const struct pod_setting_list *list = at;
    char number[32];

    switch (setting->type) {
    case POD_SETTING_FLAG:
        if (*(const bool *)at)
            config_put(out, setting->name, "true");
        return;
    case POD_SETTING_TEXT:
        if (*(char *const *)at != NULL)
            config_put(out, setting->name, *(char *const *)at);
        return;
    case POD_SETTING_LIST:
        for (size_t i = 0; i < list->count; i++)
            config_put(out, setting->name, list->items[i]);
        return;
    case POD_SETTING_COUNT:
    case POD_SETTING_BYTES:
        if (*(const uint64_t *)at == 0) // not given
            return;
        (void)snprintf(number, sizeof(number), "%" PRIu64,
                       *(const uint64_t *)at);
        break;
    case POD_SETTING_DURATION:
        (void)snprintf(number, sizeof(number), "%.9gs",
                       (double)*(const int64_t *)at / 1e9);
        break;
    }
    config_put(out, setting->name, number);
}

void pod_config_text(const struct pod_setting *table, size_t count,
                     const void *settings, struct pod_str *out_text)
{
    for (size_t i = 0; i < count; i++)
        config_put_setting(out_text, &table[i],
                           (const char *)settings + table[i].offset);
}

static const char *config_value_name(enum pod_setting_type type)
{
    switch (type) {
    case POD_SETTING_FLAG:
        return "";
    case POD_SETTING_TEXT:
    case POD_SETTING_LIST:
        return " TEXT";
    case POD_SETTING_COUNT:
        return " NUMBER";
    case POD_SETTING_BYTES:
        return " SIZE";
    case POD_SETTING_DURATION:
        return " TIME";
    }
    return "";
}

// Prints text in lines of words from a column on, which the cursor is at.
static void config_print_wrapped(const char *text, int column, int width)
{
    int at = column;

    while (*text != '\0') {
        int word = (int)strcspn(text, " ");
        if (at > column && at + 1 + word > width) {
            printf("\n%*s", column, "");
            at = column;
        } else if (at > column) {
            printf(" ");
            at++;
        }
        printf("%.*s", word, text);
        at += word;
        text += word;
        text += strspn(text, " ");
    }
    printf("\n");
}

void pod_config_help(const struct pod_setting *table, size_t count)
{
    enum { COLUMN = 36, WIDTH = 80 };

    for (size_t i = 0; i < count; i++) {
        int used =
            printf("  --%s%s", table[i].name, config_value_name(table[i].type));
        printf("%*s", used < COLUMN ? COLUMN - used : 1, "");
        config_print_wrapped(table[i].help, COLUMN, WIDTH);
    }
}
