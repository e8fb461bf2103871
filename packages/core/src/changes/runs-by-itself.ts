/** Length of the longest name that a file can have. */
const MAX_NAME = 255
/** Characters that some file systems drop from names. */
const IGNORABLE = /\p{Default_Ignorable_Code_Point}/gu

/**
 * Folds a file name so that two names that are the same file on any file system (case-insensitive, Unicode-normalising, dropping
 * ignorable characters) have the same fold.
 */
export function foldCase(name: string): string {
  return name.replace(IGNORABLE, '').normalize('NFKC').toUpperCase().toLowerCase().normalize('NFC')
}

/** Reason why each kind of file runs, as a sentence about the file. */
const WHY = {
  git: 'git reads it as configuration or runs it as a hook',
  ci: 'CI or a deployment runs it',
  packages: 'the package manager runs its scripts, or installs and runs packages that it lists',
  editor: 'an editor runs it or reads its configuration when the folder is opened',
  shell: 'a shell, a debugger or another tool loads it when it starts in the folder',
  tool: 'a build, test or lint tool runs it, or loads code that it refers to',
  agent: 'coding agents follow it as instructions or start programs that it lists',
  passover: 'Passover reads it as configuration',
} as const

type Why = keyof typeof WHY

/** Directories whose whole content counts, at any depth of the path. */
const DIRECTORIES: Record<Why, readonly string[]> = {
  git: ['.git', '.githooks', '.husky', '.hooks', '.lefthook', '.hg', '.svn', '.jj', '.bzr'],
  ci: [
    ...['.github', '.gitlab', '.gitea', '.forgejo', '.circleci', '.ci', '.buildkite', '.woodpecker', '.semaphore', '.teamcity', '.tekton'],
    ...['.builds', '.zuul.d', '.ebextensions', '.platform', '.azuredevops'],
  ],
  packages: [
    'node_modules',
    '.yarn',
    '.pnpm',
    '.bundle',
    '.mvn',
    '.cargo',
    '.gradle',
    '.venv',
    'venv',
    'site-packages',
    '.swiftpm',
    'renv',
  ],
  editor: [
    ...['.vscode', '.idea', '.fleet', '.zed', '.run', '.devcontainer', '.settings', '.vs', '.nvim', '.vim', '.emacs.d', '.helix', '.theia'],
    // Build servers and builders that an editor starts when it opens the folder.
    ...['.bsp', '.nova', '.externaltoolbuilders', 'nbproject'],
  ],
  shell: ['.direnv', '.mise', '.envrc.d', '.ipython', '.jupyter'],
  tool: ['.storybook', '.config', '.bazel', '.terraform', '.moon', '.nx', '.devenv', '.devbox'],
  agent: [
    ...['.claude', '.cursor', '.codex', '.gemini', '.windsurf', '.roo', '.clinerules', '.kiro', '.continue', '.aider'],
    ...['.augment', '.junie', '.qwen', '.kilocode', '.amazonq', '.trae', '.crush', '.goose', '.agents'],
  ],
  passover: ['.passover', '.opencode'],
}

/** Patterns for the last name of a path, matched against its fold as a whole. */
const NAMES: readonly [Why, RegExp][] = [
  // A directory with HEAD, objects and refs is a repository: git run there reads its file `config`.
  ['git', /\.git.*|head|(\.?lefthook.*|\.pre-commit-(config|hooks)\.ya?ml|\.overcommit\.yml|\.simple-git-hooks.*|\.lintstagedrc.*)/],
  ['ci', /(\.?gitlab-ci|\.travis|\.?appveyor|\.drone|\.cirrus|\.?woodpecker|\.build|wercker|codefresh)\.(ya?ml|star)/],
  ['ci', /(azure-pipelines|bitbucket-pipelines|cloudbuild|buildspec|appspec|render|app|serverless|skaffold)(\..*)?\.ya?ml|jenkinsfile.*/],
  ['ci', /(netlify|fly|wrangler)\.(toml|jsonc?)|vercel\.json|procfile.*|heroku\.yml/],
  [
    'ci',
    /(\.?(zuul|goreleaser|prow|rultor|mergify|platform\.app)|codemagic|bitrise|amplify|samconfig|firebase|railway|nixpacks)\.(ya?ml|json|toml)/,
  ],
  ['packages', /package\.(json5?|ya?ml)|package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-(lock|workspace)\.ya?ml|bun\.lockb?/],
  ['packages', /\.npmrc|\.yarnrc(\.ya?ml)?|\.?pnpmfile\.[cm]?js|bunfig\.toml|deno\.(jsonc?|lock)|\.pnp\..*|binding\.gyp|lerna\.json/],
  ['packages', /(julia)?(project|manifest)\.toml|(pdm|pixi|conda-lock)\.(toml|lock|ya?ml)|environment\.ya?ml|(hatch|foundry)\.toml/],
  [
    'packages',
    /conanfile\.(py|txt)|vcpkg(-configuration)?\.json|nuget\.config|global\.json|pubspec\.(ya?ml|lock)|podfile(\.lock)?|cartfile/,
  ],
  [
    'packages',
    /.*\.(cabal|opam)|cabal\.project.*|stack\.ya?ml|setup\.l?hs|rebar\.(config(\.script)?|lock)|(deps|shadow-cljs|bb)\.edn|project\.clj/,
  ],
  ['packages', /pyproject\.toml|setup\.(py|cfg)|requirements.*\.(txt|in)|pipfile(\.lock)?|poetry\.lock|uv\.(lock|toml)|pip\.conf/],
  [
    'packages',
    /gemfile(\.lock)?|.*\.gemspec|composer\.(json|lock)|cargo\.(toml|lock)|build\.rs|mix\.(exs|lock)|go\.(mod|sum|work)|pom\.xml/,
  ],
  ['editor', /.*\.(code-workspace|sublime-project|iml)|\.(exrc|vimrc|nvimrc|gvimrc|lvimrc|nvim\.lua|dir-locals(-2)?\.el)|_vimrc/],
  // `.emacs` runs if the folder is the home directory; `.project` names Eclipse's builders, `.kateproject` language servers.
  [
    'editor',
    /[._]emacs(\.elc?)?|\.(project|kateproject|vimspector\.json|ycm_extra_conf\.py|replit)|analysis_options\.yaml|omnisharp\.json/,
  ],
  ['editor', /\.gitpod\.yml|devcontainer\.json|desktop\.ini|autorun\.inf/],
  ['shell', /\.env.*|\.(bash|zsh|tcsh|csh|ksh)(rc|env|_profile|_login|_logout)|\.z?(profile|login|logout)|config\.fish|\.inputrc/],
  ['shell', /\.(gdbinit|lldbinit|tool-versions|autoenv.*|irbrc|pryrc|pythonrc|pythonstartup|node_repl_history)|\.?mise.*\.toml/],
  ['shell', /(shell|default|flake)\.(nix|lock)|(site|user)customize\.py|.*\.pth|\.(curlrc|wgetrc|netrc|ssh)/],
  ['tool', /.*[.-](config|conf|setup|workspace)\.([cm]?[jt]sx?|json5?|ya?ml|toml)|setuptests\.[jt]sx?/],
  [
    'tool',
    /\..*rc(\.([cm]?[jt]s|jsonc?|json5|ya?ml|toml))?|(gulpfile|gruntfile|jakefile|dangerfile|fastfile)(\..*)?|(nx|turbo|project)\.json/,
  ],
  [
    'tool',
    /(ts|js)config.*\.json|\.?biome\.jsonc?|.*\.grit|\.(pylintrc|flake8|coveragerc|rspec|rubocop\.ya?ml|golangci\.(ya?ml|toml|json))/,
  ],
  // A version manager downloads or runs the interpreter that such a file names; a toolchain may be a path.
  ['shell', /\.[a-z]+-version|rust-toolchain(\.toml)?|\.bazelversion|devbox\.json|devenv\.(nix|ya?ml)/],
  // Interpreters load these from the directory in which they start.
  ['shell', /\.(rprofile|renviron|ghci|ocamlinit|perldb|guile|user\.ini|htaccess)|(ipython|jupyter\w*)_config\.py|startup\.jl|php\.ini/],
  ['shell', /\.bash_(aliases|completion)|\.x(profile|session)|\.tmux\.conf|\.my\.cnf|\.forward/],
  [
    'tool',
    /cdk(tf)?\.json|.*\.(tf|tofu)(\.json)?|.*\.(pkr|nomad)\.hcl|\.terraform\.lock\.hcl|terragrunt\.hcl|terraform\.rc|pulumi(\..*)?\.ya?ml/,
  ],
  [
    'tool',
    /ansible\.cfg|helmfile(\..*)?\.ya?ml|(angular|nest-cli|rush|workspace)\.json|\.angular-cli\.json|moon\.ya?ml|pants\.toml|\.buckconfig|buck/,
  ],
  [
    'tool',
    /gatsby-(node|ssr|browser)\.[cm]?[jt]sx?|ember-cli-build\.[cm]?js|wallaby\.[cm]?js|webpack\.mix\.[cm]?js|nextflow\.config|snakefile/,
  ],
  [
    'tool',
    /(phpunit|psalm)\.xml(\.dist)?|phpstan(\..*)?\.neon(\.dist)?|(rector|ecs)\.php|\.php-cs-fixer(\.dist)?\.php|guardfile|capfile|config\.ru|\.simplecov/,
  ],
  [
    'tool',
    /cmakeuserpresets\.json|.*\.bzl|workspace\.bzlmod|dune(-project|-workspace)?|earthfile|dagger\.json|xmake\.lua|premake5?\.lua|tupfile|build\.(sc|mill)/,
  ],
  ['tool', /conftest\.py|(tox|pytest)\.ini|noxfile\.py|fabfile\.py|tasks\.py|wscript|sconstruct|sconscript/],
  [
    'tool',
    /(gnu)?makefile(\..*)?|.*\.(mk|mak|cmake|gradle|gradle\.kts|sbt)|gradlew.*|gradle\.properties|mvnw.*|cmakelists\.txt|cmakepresets\.json/,
  ],
  [
    'tool',
    /configure(\.(ac|in))?|\.?justfile|taskfile\.ya?ml|rakefile(\..*)?|build\.(xml|zig|bazel|sh)|meson\.build|workspace(\.bazel)?|module\.bazel/,
  ],
  ['tool', /.*\.(sln|props|targets|pbxproj)|.*\.(cs|fs|vb|vcx)proj|package\.swift|\.?bazelrc|build/],
  ['tool', /(docker|container)file.*|.*\.(docker|container)file|(docker-)?compose.*\.ya?ml|vagrantfile|tiltfile|brewfile/],
  [
    'tool',
    /gradle-wrapper\.(properties|jar)|(directory\.build|msbuild)\.rsp|dub\.(json|sdl)|build\.zig\.zon|shard\.ya?ml|conf\.py|mkdocs\.ya?ml|doxyfile|project\.ya?ml/,
  ],
  ['tool', /\.(clangd|ccls|vscode-test\.[cm]?js|markdownlint.*)|compile_commands\.json|kustomization\.ya?ml|chart\.ya?ml|hgrc/],
  ['agent', /(copilot-instructions|conventions)\.md|(qwen|crush|warp|replit)\.md|\.?crush\.json|\.goosehints|\.rules|\.augment-guidelines/],
  ['agent', /(agents|claude|gemini|skill)(\.local)?\.md|\.?mcp\.json|\.(cursor|windsurf|cline)rules|\.aider.*|opencode\.jsonc?|llms\.txt/],
  ['passover', /pass-over\.json/],
]

const BY_NAME = NAMES.map(([why, pattern]) => [why, new RegExp(`^(?:${pattern.source})$`)] as const)
const BY_DIRECTORY = new Map((Object.keys(DIRECTORIES) as Why[]).flatMap((why) => DIRECTORIES[why].map((name) => [name, why] as const)))

/** Short names that Windows may give to a directory with a leading dot: `GIT~1`, `PASSOV~1`. */
const SHORT_NAMES: readonly [Why, RegExp][] = [
  ['git', /^(git|gi[0-9a-f]{4}|gitmod|gitatt|husky)~[0-9]+$/],
  ['passover', /^(passov|openco|pa[0-9a-f]{4})~[0-9]+$/],
]

/**
 * Returns why a file may run, or change what runs, without a person starting it: hooks, CI, package scripts, editor tasks, tool
 * configuration and instructions for agents. Such files are never applied automatically, and approvers are warned of them.
 * A path that is not listed may still be code that someone runs later. Files that only describe a style, such as `.editorconfig`, are not listed:
 * no tool runs what they name.
 *
 * @param path - Path within the project, with `/` or `\` as separators; it does not have to be valid.
 * @returns One clause about the file, or `undefined` for a file that only runs when someone starts or imports it.
 */
export function runsByItself(path: string): string | undefined {
  const given = path.split(/[/\\]/)
  // No file system has such a name, and matching it could take long.
  if (given.some((name) => name.length > MAX_NAME)) return undefined
  const names = given.map(foldName).filter((name) => name !== '')
  for (const name of names) {
    const why = BY_DIRECTORY.get(name) ?? SHORT_NAMES.find(([, pattern]) => pattern.test(name))?.[0]
    if (why) return WHY[why]
  }
  const last = names.at(-1) ?? ''
  // A name grows as it is folded, one character to up to 18. The patterns look at its beginning or its end.
  const parts = last.length > MAX_NAME ? [last.slice(0, MAX_NAME), last.slice(-MAX_NAME)] : [last]
  const found = BY_NAME.find(([, pattern]) => parts.some((part) => pattern.test(part)))
  return found && WHY[found[0]]
}

/** Removes from a name what file systems ignore: alternate streams (`.git::$DATA`), trailing dots and spaces, case, and Unicode form. */
function foldName(name: string): string {
  const folded = foldCase(name)
  const colon = folded.indexOf(':')
  let end = colon < 0 ? folded.length : colon
  while (end > 0 && '. '.includes(folded[end - 1] ?? '')) end -= 1
  return folded.slice(0, end).trimStart()
}
