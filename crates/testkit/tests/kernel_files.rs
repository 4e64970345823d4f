//! Every file of `tests/filetests/kernel`: it prints and parses back, and its runs give what they say.

use infc_ir::kernel::Kernel;
use infc_ir::text::canonical::canonical_kernel;
use infc_ir::verify::verify_kernel;
use infc_testkit::filetests;

#[test]
fn kernels_print_and_parse_back() {
    for test in filetests("kernel") {
        let kernel = test.kernel();
        let text = kernel.to_string();
        let again: Kernel = text.parse().unwrap_or_else(|e| panic!("{} printed as\n{text}\n{e}", test.name));
        assert!(again == kernel, "{} printed as\n{text}\nand this as\n{again}", test.name);
        assert!(canonical_kernel(&kernel) == kernel, "{} is not canonical", test.name);
        assert_eq!(again.to_string(), text);
    }
}

#[test]
fn kernels_are_valid() {
    for test in filetests("kernel") {
        verify_kernel(&test.kernel()).unwrap_or_else(|e| panic!("{}: {e}", test.name));
    }
}

#[test]
fn runs_give_what_they_say() {
    let tests = filetests("kernel");
    assert!(tests.len() >= 15);
    for test in &tests {
        assert_eq!(test.command, "interpret", "{}", test.name);
        test.interpret();
    }
}
