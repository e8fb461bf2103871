import { fileURLToPath } from 'node:url'

/** Of the command and of everything that it runs. */
export const VERSION = '0.1.0'

/** The package that has the command. */
export const PACKAGE = '@passover/cli'

/** The file that starts the command. It is named from here because this file and the bundle are equally deep in the package. */
export const COMMAND_FILE = fileURLToPath(new URL('../bin/passover.js', import.meta.url))
