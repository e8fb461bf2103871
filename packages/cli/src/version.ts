/** Of the command and of everything that it runs. */
export const VERSION = '0.1.0'

/** The package that has the command. */
export const PACKAGE = '@passover/cli'
